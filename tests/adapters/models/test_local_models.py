"""Which models are local: by the addresses of their servers, and nothing that is not known is."""

from typing import Any

import pytest
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel as PlayedModel

from orchestrator.adapters.models import OllamaOptions, ServerOptions, as_chat_model
from orchestrator.adapters.models.scripted import ScriptedModel
from orchestrator.core.ports import is_local


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("http://127.0.0.1:11434", True), ("http://localhost:1234/v1", True), ("http://[::1]:8080", True),
        ("http://192.168.178.20:11434", True), ("http://10.0.0.7", True), ("http://172.20.1.1", True),
        ("http://169.254.1.1", True), ("http://[fe80::1%eth0]:1", True), ("http://[fd12::1]:1", True),
        ("http://ollama:11434", True), ("http://box.local", True), ("http://models.internal.", True),
        ("https://api.openai.com/v1", False), ("http://8.8.8.8", False), ("http://172.32.0.1", False),
        ("http://[2606:4700::1111]", False), ("https://localhost.example.com", False), ("", False),
        ("http://[broken", False), ("https://127.0.0.1.example.com", False), ("https://10.0.0.1@example.com", False),
    ],
)  # fmt: skip
def test_an_address_is_local_or_not(address: str, local: bool) -> None:
    """No name is looked up."""
    model: Any = type("Model", (), {"servers": (address,)})()
    assert is_local(model) is local


def test_models_tell_where_they_are_asked() -> None:
    """Of Ollama, of a server of one's own, scripted, played in this process, and several one after the other."""
    near, far = (
        OllamaOptions(url="http://127.0.0.1:11434"),
        OllamaOptions(url="http://127.0.0.1:1, https://a.example.com"),
    )
    assert is_local(as_chat_model("ollama:llama3.2", near))
    assert not is_local(as_chat_model("ollama:llama3.2", far))
    for name in ("gpt-oss:120b-cloud", "glm-4.6:cloud"):
        assert not is_local(as_chat_model(f"ollama:{name}", near)), "Ollama passes it on"
    assert is_local(as_chat_model("openai-chat:x", served=ServerOptions(url="http://127.0.0.1:1234/v1")))
    assert not is_local(as_chat_model("openai-chat:x", served=ServerOptions(url="https://api.example.com/v1")))
    assert is_local(ScriptedModel([]))
    played, made = PlayedModel(), FunctionModel(lambda *_: None)  # type: ignore[arg-type]
    assert is_local(as_chat_model(played))
    assert is_local(as_chat_model(FallbackModel(played, made)))


def test_a_model_that_does_not_say_is_not_local() -> None:
    """Anybody's code, also in an earlier form of the port; one that says it is."""

    class Mine:
        name = "mine"

        async def reply(self, messages: Any) -> Any:
            raise NotImplementedError

    assert not is_local(as_chat_model(Mine()))
    Mine.servers = ()  # type: ignore[attr-defined]
    assert is_local(as_chat_model(Mine()))
