"""The model of `serve` where nobody names one: the question, what is remembered, what is taken without a question."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.commands import CLI, Terminal, cli, on_a_terminal, process_of, refused
from tests.harness.ollama_server import OllamaServer, ollama, says

GB = 10**9
SMALL = {"name": "llama3.2:3b", "model": "llama3.2:3b", "size": 2 * GB}
CODER = {"name": "qwen2.5-coder:7b", "model": "qwen2.5-coder:7b", "size": int(4.7 * GB)}
HUGE = {"name": "qwen3-coder:480b", "model": "qwen3-coder:480b", "size": 10**15}
CLOUD = {"name": "gpt-oss:120b-cloud", "model": "gpt-oss:120b-cloud"}
EMBEDS = {"name": "nomic-embed-text", "model": "nomic-embed-text", "size": GB // 4}
NOWHERE = "http://127.0.0.1:9"


def at(server: OllamaServer | None, served: str = NOWHERE) -> dict[str, str]:
    """The environment in which these servers, and no others, are looked for; None: nobody listens there."""
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY"), "")
    return {**keys, "OLLAMA_HOST": server.url if server else NOWHERE, "OPENAI_BASE_URL": served}


def kept(home: Path) -> Any:
    """The remembered model; None: there is none."""
    file = home / "d" / "model.json"
    return json.loads(file.read_text())["model"] if file.exists() else None


def asked(home: Path, where: dict[str, str], talk: Callable[[Terminal], None], *options: str) -> str:
    """All that `serve` said on a terminal until it listened, after what a person typed there."""
    with on_a_terminal(home, "serve", "--port", "0", "--data-dir", str(home / "d"), *options, **where) as terminal:
        talk(terminal)
        terminal.expect("listening on http://")
        return terminal.text


def unattended(home: Path, where: dict[str, str], *options: str) -> tuple[str, dict[str, Any]]:
    """The log of a start on pipes, and what the server says of its model."""
    command = [*CLI, "serve", "--port", "0", "--data-dir", str(home / "d"), *options]
    log = home / "serve.log"
    log.unlink(missing_ok=True)
    with process_of(command, home, home / "d", **where) as server:
        said = json.loads(server.cli("models", "list", "--json").stdout)
        ran = server.cli("run", "--detach", "say hello")
        return log.read_text(), {"models": said, "ran": ran.stderr}


def types(text: str) -> Callable[[Terminal], None]:
    """A person who answers the question."""

    def talk(terminal: Terminal) -> None:
        terminal.expect("Number [")
        terminal.type(text)

    return talk


def silent(terminal: Terminal) -> None:
    """A person who is asked nothing."""


async def test_it_is_asked_once_and_remembered(tmp_path: Path) -> None:
    """Enter takes the suggestion, which fits the memory and writes programs; the next start asks nothing."""
    async with ollama(says("{}")) as server:
        server.listed = {"models": [SMALL, HUGE, CLOUD, EMBEDS, CODER]}
        first = await asyncio.to_thread(asked, tmp_path, at(server), types("\n"))
        looked = len(server.paths)
        second = await asyncio.to_thread(asked, tmp_path, at(server), silent)
        named = await asyncio.to_thread(asked, tmp_path, at(server), silent, "--model", "scripted:tour")
    rows = [line.split() for line in first.splitlines() if line.startswith("   ")]
    assert [row[:2] for row in rows] == [
        ["1", "ollama:qwen2.5-coder:7b"],
        ["2", "ollama:llama3.2:3b"],
        ["3", "ollama:qwen3-coder:480b"],
        ["4", "ollama:gpt-oss:120b-cloud"],
        ["0", "none"],
    ]
    assert first.count("suggested") == 1
    assert rows[0][-1] == "suggested"
    assert "too large" in first
    assert looked >= 1
    assert "Number" not in second + named
    assert "ollama:qwen2.5-coder:7b, as " in second
    assert kept(tmp_path) == "ollama:qwen2.5-coder:7b", "an explicit model is for one start"


async def test_the_question_breaks_no_address_on_a_narrow_terminal(tmp_path: Path) -> None:
    async with ollama(says("{}")) as server:
        server.listed = {"models": [SMALL, HUGE, CODER]}
        said = await asyncio.to_thread(asked, tmp_path, {**at(server), "COLUMNS": "60"}, types("\n"))
    rows = said.partition("Which model")[2].partition("Number [")[0].splitlines()
    assert max(map(len, rows)) <= 60
    assert said.count(server.url) >= 3


async def test_choose_model_asks_again_and_a_hosted_one_takes_a_yes(tmp_path: Path) -> None:
    """A number chooses; a model in a cloud is asked about once more; 0 is the script, and the banner says so."""

    def talk(terminal: Terminal) -> None:
        types("9\n")(terminal)
        terminal.expect("Type a number from 0 to 2")
        types("2\n")(terminal)
        terminal.expect("it costs money, and what tasks read on your computers goes to its provider")
        terminal.type("\n")
        types("0\n")(terminal)

    async with ollama(says("{}")) as server:
        server.listed = {"models": [CODER, CLOUD]}
        said = await asyncio.to_thread(asked, tmp_path, at(server), talk, "--choose-model")
        assert kept(tmp_path) == "scripted:hello"
        again = await asyncio.to_thread(asked, tmp_path, at(server), types("1\n"), "--choose-model")
    assert "No model is chosen: a script answers" in said
    assert "\n  ollama pull qwen2.5-coder:7b\n  cc-orchestrator serve --choose-model\n" in said
    assert "No model is chosen" not in again
    assert kept(tmp_path) == "ollama:qwen2.5-coder:7b"


async def test_ctrl_c_at_the_question_leaves_nothing(tmp_path: Path) -> None:
    """It ends with 130 and remembers nothing."""

    def left(where: dict[str, str]) -> int:
        command = ("serve", "--port", "0", "--data-dir", str(tmp_path / "d"))
        with on_a_terminal(tmp_path, *command, **where) as terminal:
            terminal.expect("Number [")
            terminal.interrupt()
            return terminal.end()

    async with ollama(says("{}")) as server:
        server.listed = {"models": [CODER]}
        assert await asyncio.to_thread(left, at(server)) == 130
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("models", "taken"),
    [
        ([SMALL, CODER, EMBEDS], "ollama:qwen2.5-coder:7b"),
        ([SMALL], "scripted:hello"),
        ([CLOUD], "scripted:hello"),
        ([HUGE], "scripted:hello"),
        ([], "scripted:hello"),
    ],
    ids=["a coder", "no coder", "a cloud's", "too large", "none"],
)
async def test_without_a_terminal_only_a_local_coder_that_fits_is_taken(
    tmp_path: Path, models: list[dict[str, Any]], taken: str
) -> None:
    """Nothing is asked and nothing remembered; the log says what was taken and why, and `run` who answers."""
    async with ollama(says("{}")) as server:
        server.listed = {"models": models}
        log, said = await asyncio.to_thread(unattended, tmp_path, at(server))
    assert kept(tmp_path) is None
    if taken == "scripted:hello":
        assert "name one with `cc-orchestrator serve --model NAME`" in log
        assert "No model is chosen: a script answers" in log
        assert "\n  cc-orchestrator serve --choose-model\n" in said["ran"]
    else:
        assert f"the model is {taken} (Ollama at {server.url}): nobody named one" in log
        assert "No model" not in log + said["ran"]
    assert ("has no model. To get one: ollama pull qwen2.5-coder:7b" in log) == (not models)
    assert "HTTP Request" not in log
    assert [one["name"] for one in said["models"]] == sorted(one["name"] for one in models), "as the server sees it"


async def test_a_remembered_model_needs_no_terminal_and_a_damaged_file_no_repair(tmp_path: Path) -> None:
    """A file that cannot be read is named, and counts for nothing."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "model.json").write_text('{"model": "scripted:tour", "model_url": ""}')
    log, said = await asyncio.to_thread(unattended, tmp_path, at(None))
    assert "the model is scripted:tour, as " in log
    assert "No model" not in log + said["ran"]
    (tmp_path / "d" / "model.json").write_text("{")
    log, _ = await asyncio.to_thread(unattended, tmp_path, at(None))
    assert "model.json cannot be read" in log
    assert "No model is chosen" in log


async def test_a_remembered_model_is_asked_about_again_at_another_address(tmp_path: Path) -> None:
    """The yes was for one host: the text of tasks goes to no other one before a person says so."""
    async with ollama(says("{}")) as server, ollama(says("{}")) as other:
        server.listed = other.listed = {"models": [CODER, SMALL]}
        await asyncio.to_thread(asked, tmp_path, at(server), types("2\n"))
        same, _ = await asyncio.to_thread(unattended, tmp_path, at(server))
        alone, _ = await asyncio.to_thread(unattended, tmp_path, at(other))
        again = await asyncio.to_thread(asked, tmp_path, at(other), types("2\n"))
        then, _ = await asyncio.to_thread(unattended, tmp_path, at(other))
        moved = f"ollama:llama3.2:3b was chosen at {server.url}, and the settings say {other.url} now"
    assert "the model is ollama:llama3.2:3b, as " in same
    assert moved in alone
    assert "the model is ollama:qwen2.5-coder:7b" in alone, "as where nothing is remembered"
    assert moved in again
    assert "the model is ollama:llama3.2:3b, as " in then
    assert kept(tmp_path) == "ollama:llama3.2:3b"


def test_a_server_of_openai_takes_no_choice_that_was_of_its_provider(tmp_path: Path) -> None:
    """The name stays the same; the address, where the key would go too, does not."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "model.json").write_text('{"model": "openai-chat:gpt-5", "model_url": ""}')
    log, _ = unattended(tmp_path, at(None))
    assert f"openai-chat:gpt-5 was chosen at its provider, and the settings say {NOWHERE}/v1 now" in log


def test_choose_model_says_where_it_cannot(tmp_path: Path) -> None:
    """Without a terminal, and where a model is set."""
    command = ("serve", "--port", "0", "--data-dir", str(tmp_path / "d"), "--choose-model")
    refused(cli(tmp_path, *command), "there is no terminal", "--model ollama:")
    refused(cli(tmp_path, *command, CC_ORCHESTRATOR_MODEL="scripted:tour"), "scripted:tour is set already")


async def test_a_model_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    """No task begins; the answer names those that there are, and the right name of one that nearly is one."""
    async with ollama(says("{}")) as server:
        server.listed = {"models": [CODER]}
        command = [*CLI, "serve", "--port", "0", "--data-dir", str(tmp_path / "d")]
        with process_of(command, tmp_path, tmp_path / "d", **at(server)) as served:
            for name, words in (
                ("missing", "Models there: ollama:qwen2.5-coder:7b."),
                ("ollama:missing", "There is no model ollama:missing. Get it: ollama pull missing. Models there:"),
                ("qwen2.5-coder:7b", "Say ollama:qwen2.5-coder:7b."),
            ):
                done = await asyncio.to_thread(served.cli, "run", "--model", name, "--detach", "hello")
                refused(done, words, code=4)
            assert (await asyncio.to_thread(served.cli, "tasks")).stdout == ""
