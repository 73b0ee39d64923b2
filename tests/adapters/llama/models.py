"""Models with random weights, small enough to be made in a second: what a real engine needs to be one.

They say nothing that makes sense, and that is their use: whatever the grammar lets them say, they say. Nothing
about the quality of a model is to be seen here.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gguf import GGUFValueType, GGUFWriter

LONGEST: Final = 131_072
"""Tokens of context that the models say they were made for."""
_HEADS: Final = 2
_LAYERS: Final = 1
_START: Final = "<|im_start|>"
_END: Final = "<|im_end|>"
TEMPLATE: Final = (
    "{% for message in messages %}"
    f"{_START}{{{{ message['role'] }}}}\n{{{{ message['content'] }}}}{_END}\n"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{_START}assistant\n{{% endif %}}"
)
"""The form that most small models were taught: it puts what Ollama's templates put around a message."""
_CHARACTERS: Final = "äöüßéèñçåøœабвжшяαβγ–—“”…×→✓€中文字日本語🐢🚀"
_CONTROL: Final = 3
_NORMAL: Final = 1
_CONSTANT: Final = 4.0


def babbler(path: Path, *, stammers: bool = False) -> Path:
    """A model whose tokens are bytes and some characters of several bytes: some 400 kB, and it can say anything.

    ``stammers``: it says halves of characters too, which one that was taught hardly ever does; the engine counts
    them otherwise than who reads them.
    """
    tokens, merges = [_WRITTEN[byte] for byte in range(256)], []
    whole = set(range(128))
    for character in _CHARACTERS:
        first, *rest = (_WRITTEN[byte] for byte in character.encode())
        for part in rest:
            merges.append(f"{first} {part}")
            first += part
            if first not in tokens:
                tokens.append(first)
        whole.add(tokens.index(first))
    size = len(tokens)
    with _Writing(path, path.stem, width=64) as writing:
        writer = writing.writer
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_list([*tokens, _START, _END])
        writer.add_token_types([*[_NORMAL] * size, _CONTROL, _CONTROL])
        writer.add_token_merges(list(dict.fromkeys(merges)))
        writer.add_bos_token_id(size)
        writer.add_eos_token_id(size + 1)
        writer.add_add_bos_token(False)
        writing.weights(size + 2, never=() if stammers else [one for one in range(size) if one not in whole])
    return path


def reader(vocabulary: Path, path: Path) -> Path:
    """A model that reads as the models of a family do: with the vocabulary of a file without weights."""
    tokens = 0
    with _Writing(path, vocabulary.stem, width=32) as writing:
        for name, value in _fields(vocabulary.read_bytes()):
            if name == "tokenizer.ggml.tokens":
                tokens = len(value.content)
            if name.startswith("tokenizer.ggml."):
                writing.writer.add_key_value(name, value.content, value.kind, value.inner)
        writing.weights(tokens)
    return path


class _Writing:
    """A file that is being written: what each model is, and its weights at the end."""

    def __init__(self, path: Path, name: str, *, width: int) -> None:
        import gguf

        self.writer: GGUFWriter = gguf.GGUFWriter(path, "llama")
        self._width = width
        self.writer.add_name(name)
        self.writer.add_context_length(LONGEST)
        self.writer.add_embedding_length(width)
        self.writer.add_feed_forward_length(width * 3)
        self.writer.add_block_count(_LAYERS)
        self.writer.add_head_count(_HEADS)
        self.writer.add_layer_norm_rms_eps(1e-5)
        self.writer.add_rope_dimension_count(width // _HEADS)
        self.writer.add_chat_template(TEMPLATE)

    def __enter__(self) -> "_Writing":
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()

    def weights(self, tokens: int, never: Sequence[int] = ()) -> None:
        """All weights by chance, always the same; ``never``: tokens that the model does not say."""
        import numpy as np

        chance = np.random.default_rng(20_261_122)
        width, wide = self._width, self._width * 3
        # In half precision where a vocabulary of a whole family would make it large.
        kind = np.float16 if tokens > 1000 else np.float32

        def drawn(rows: int, columns: int) -> Any:
            return chance.standard_normal((rows, columns)) * columns**-0.5

        def add(name: str, values: Any) -> None:
            self.writer.add_tensor(name, values.astype(kind))

        def norm(name: str) -> None:
            self.writer.add_tensor(name, np.ones(width, dtype=np.float32))

        # The first number of a state is the same everywhere and nothing is added to it, so that a token can lean on it.
        embedded, said = chance.standard_normal((tokens, width)), drawn(tokens, width)
        embedded[:, 0], said[:, 0] = _CONSTANT, 0.0
        said[list(never), 0] = -10 * _CONSTANT
        add("token_embd.weight", embedded)
        add("output.weight", said)
        norm("output_norm.weight")
        for layer in range(_LAYERS):
            norm(f"blk.{layer}.attn_norm.weight")
            norm(f"blk.{layer}.ffn_norm.weight")
            for part in ("attn_q", "attn_k", "attn_v"):
                add(f"blk.{layer}.{part}.weight", drawn(width, width))
            for part in ("ffn_gate", "ffn_up"):
                add(f"blk.{layer}.{part}.weight", drawn(wide, width))
            for part, columns in (("attn_output", width), ("ffn_down", wide)):
                back = drawn(width, columns)
                back[0] = 0.0
                add(f"blk.{layer}.{part}.weight", back)


def _written() -> dict[int, str]:
    """Each byte as vocabularies of this kind write it: printable ones as they are, the others from 256 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + place) for place, byte in enumerate(others)}


_WRITTEN: Final = _written()


# -- reading -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Value:
    content: Any
    kind: "GGUFValueType"
    inner: "GGUFValueType | None" = None
    """What an array is of."""


def _fields(data: bytes) -> Iterator[tuple[str, _Value]]:
    """The values in a file, by name; the reader of the package takes half a minute for a large vocabulary."""
    from gguf import GGUFValueType

    place = 0

    def number(code: str) -> Any:
        nonlocal place
        (found,) = struct.unpack_from(f"<{code}", data, place)
        place += struct.calcsize(f"<{code}")
        return found

    def text() -> str:
        nonlocal place
        length = number("Q")
        place += length
        return data[place - length : place].decode("utf-8")

    def value(kind: GGUFValueType) -> Any:
        return text() if kind is GGUFValueType.STRING else number(_CODES[kind.name])

    assert number("4s") == b"GGUF"
    _version, _tensors, fields = number("I"), number("Q"), number("Q")
    for _ in range(fields):
        name, kind = text(), GGUFValueType(number("I"))
        if kind is GGUFValueType.ARRAY:
            inner = GGUFValueType(number("I"))
            yield name, _Value([value(inner) for _ in range(number("Q"))], kind, inner)
        else:
            yield name, _Value(value(kind), kind)


_CODES: Final = {
    "UINT8": "B",
    "INT8": "b",
    "UINT16": "H",
    "INT16": "h",
    "UINT32": "I",
    "INT32": "i",
    "FLOAT32": "f",
    "BOOL": "?",
    "UINT64": "Q",
    "INT64": "q",
    "FLOAT64": "d",
}
