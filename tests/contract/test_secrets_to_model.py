"""Secrets and a model that is not local: what it is told instead of them, and what its calls then write and run."""

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from orchestrator.core.ports import ChatMessage, ModelReply
from orchestrator.testing.stub_programs import StubPeripheral
from tests.contract.parts import Playing, policy, rule
from tests.contract.secret_files import FILE, KINDS, SECRETS
from tests.harness.support import call, says
from tests.harness.whole_server import Installation, Opened

FREE = rule("free", "allow", ["*"], reason="A test.")
READ = call("cc_read", path="app.lua")
MARKER = re.compile(r"\[redacted [0-9a-f]{8}\]")

Step = dict[str, Any] | Callable[[str], dict[str, Any]]


class Hosted(Playing):
    """A model on a public server; a step of its script may be made of what it was told last."""

    servers: Sequence[str] = ("https://api.example.com/v1",)

    def __init__(self, *steps: Step) -> None:
        super().__init__()
        self.now = ""
        """What it is asked with now."""
        self.steps = steps

    async def reply(self, messages: Sequence[ChatMessage], **options: Any) -> ModelReply:
        self.now = "\n".join(message.content for message in messages)
        place = sum(message.role == "assistant" for message in messages)
        if place < len(self.steps):
            step = self.steps[place]
            self.script = [{}] * place + [step(messages[-1].content) if callable(step) else step]
        return await super().reply(messages, **options)

    @property
    def everything(self) -> str:
        """All that it was ever sent."""
        return "\n".join(message.content for asked in self.asked for message in asked)


class Local(Hosted):
    """The same on this machine."""

    servers = ("http://127.0.0.1:11434",)


class Unknown(Hosted):
    """One of which nobody says where it is."""

    servers = None  # type: ignore[assignment]


def text_of(told: str) -> str:
    """The lines of a file that was read, without their numbers."""
    return "".join(f"{line}\n" for line in re.findall(r"^(?:TOOL_RESULT:)? *\d+\| ?(.*)$", told, re.M))


async def submitted(server: Opened, **more: Any) -> dict[str, Any]:
    return await server.ended(await server.submit(**more))


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kind", KINDS)
async def test_no_secret_of_a_file_reaches_a_hosted_model(installation: Installation, kind: str) -> None:
    """It is masked when the file is read, when it is rewritten whole and when a program prints it."""
    read = call("cc_read", path="app.txt")

    def rewritten(told: str) -> dict[str, Any]:
        return says(call("cc_write", path="app.txt", content=text_of(told) + "-- more\n"))

    model = Hosted(says(read), rewritten, says(read), says(call("cc_run_program", path="prints.lua")))
    content = KINDS[kind]
    programs = {"prints.lua": lambda _: content}
    async with installation.open(model, policy=policy(FREE), programs=programs) as server:
        server.stub.disk.put("app.txt", content.encode())
        await submitted(server, prompt=f"Look at app.txt. It has:\n{content}")
        assert MARKER.search(model.everything)
        assert [one for one in SECRETS[kind] if one in model.everything] == []
        assert server.stub.disk.file("app.txt").decode() == content + "-- more\n"


async def test_an_edit_beside_and_of_a_secret_keeps_every_byte(installation: Installation) -> None:
    """The marker is put back in ``old`` and ``new``, and people are shown the call without the secret."""

    def edited(told: str) -> dict[str, Any]:
        line = next(one for one in text_of(told).splitlines() if "password" in one)
        return says(call("cc_edit", path="app.lua", old=f"{line}\n", new=f"{line}\nlocal more = 1\n"))

    model = Hosted(says(READ), edited, says(READ))
    rules = (rule("reads", "allow", ["cc_read"]), rule("asks", "ask", ["cc_edit"]))
    async with installation.open(model, policy=policy(*rules)) as server:
        server.stub.disk.put("app.lua", FILE.encode())
        task_id, request = await server.asked()
        shown = json.dumps(request)
        assert "hunter2-Xy" not in shown
        assert "[redacted " in shown
        await server.decide(request, "approve")
        await server.ended(task_id)
        changed = server.stub.disk.file("app.lua").decode()
        line = 'local password = "hunter2-Xy"\n'
        assert changed == FILE.replace(line, f"{line}local more = 1\n")
        assert "hunter2-Xy" not in model.everything
        proposed = [one for one in await server.facts(task_id, "calls_proposed") if one.calls[0].tool == "cc_edit"]
        assert line in proposed[0].calls[0].args["new"], "the journal has what runs"


async def test_a_marker_in_a_run_is_the_secret_that_runs(installation: Installation) -> None:
    """Its program gets the true word, and what it prints is masked, however short the word is."""
    given: list[list[str]] = []

    def login(words: list[str]) -> str:
        given.append(words)
        return f"Hello {words[0]}"

    def run(told: str) -> dict[str, Any]:
        (marker,) = MARKER.findall(told)
        return says(call("cc_run_program", path="login.lua", args=[marker]))

    model = Hosted(says(READ), run)
    async with installation.open(model, policy=policy(FREE), programs={"login.lua": login}) as server:
        server.stub.disk.put("app.lua", b"password = 'plain'\n")
        await submitted(server)
        assert given == [["plain"]]
        assert "plain" not in model.everything
        assert re.search(r"Hello \[redacted", model.everything)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("marker", ["[redacted 00000000]", "[redacted 1a2b3c4d]", "[redacted 1a2b", "[redacted]"])
async def test_a_marker_that_was_never_shown_writes_nothing(installation: Installation, marker: str) -> None:
    """It is refused with a sentence for the model, a second time as well; the file stays as it was."""
    wrong = says(call("cc_write", path="app.lua", content=f"password = '{marker}'\n"))
    model = Hosted(says(READ), wrong, wrong)
    async with installation.open(model, policy=policy(FREE)) as server:
        server.stub.disk.put("app.lua", FILE.encode())
        task = await submitted(server)
        refused = await server.facts(task["task_id"], "reply_refused")
        assert len(refused) >= 2
        assert all("mark" in one.reason for one in refused[:2])
        assert server.stub.disk.file("app.lua") == FILE.encode()


async def test_what_looks_like_a_marker_in_a_file_stays(installation: Installation) -> None:
    """A text of the world that has one is read and written back as it is."""
    content = "-- shown as [redacted 1a2b3c4d] and [redacted]\n"
    model = Hosted(says(READ), lambda told: says(call("cc_write", path="b.txt", content=text_of(told))))
    async with installation.open(model, policy=policy(FREE)) as server:
        server.stub.disk.put("app.lua", content.encode())
        await submitted(server)
        assert server.stub.disk.file("b.txt").decode() == content


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("model", "said", "masks"),
    [
        (Local, None, False), (Hosted, None, True), (Unknown, None, True),
        (Local, "mask", True), (Hosted, "allow", False), (Hosted, "ask", True),
    ],
)  # fmt: skip
async def test_the_policy_decides_else_where_the_model_is(
    installation: Installation, model: type[Hosted], said: str | None, masks: bool
) -> None:
    """Without a word of the policy a local model is told all, any other is not."""
    playing = model(says(READ))
    top: dict[str, Any] = {} if said is None else {"secrets_to_model": said}
    async with installation.open(playing, policy=policy(FREE, **top)) as server:
        server.stub.disk.put("app.lua", FILE.encode())
        await submitted(server)
        assert ("hunter2-Xy" in playing.everything) is not masks
        assert ("Secrets stand as" in playing.asked[0][0].content) is masks


async def test_the_log_says_once_that_a_model_is_hosted(
    kept_installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    """When it is first used, with where it is and what to set; of a local one it says nothing."""
    for model, times in ((Hosted(), 1), (Local(), 0)):
        caplog.clear()
        async with kept_installation.open(model, policy=policy(FREE)) as server:
            await submitted(server)
            await submitted(server)
        said = [one.getMessage() for one in caplog.records if "is not local" in one.getMessage()]
        assert len(said) == times
        assert all("(api.example.com)" in one and "secrets_to_model" in one for one in said)


async def test_a_person_lets_the_model_see_one_secret(kept_installation: Installation) -> None:
    """Where the policy says ``ask``: after a yes that one stands in what it is told, and no other."""

    def asks(told: str) -> dict[str, Any]:
        marker = re.search(r"password = \"(\[redacted [0-9a-f]{8}\])", told)
        assert marker is not None
        return says(call("ask_user", question=f"May the model see {marker[1]}?", options=["yes", "no"]))

    for answer, seen in (("yes", True), ("no", False)):
        model = Hosted(says(READ), asks, says(READ))
        async with kept_installation.open(model, policy=policy(FREE, secrets_to_model="ask")) as server:
            server.stub.disk.put("app.lua", FILE.encode())
            task_id = await server.submit()
            asked = await server.item(task_id, "question_asked")
            shown = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()["question"]
            question = shown["question"]
            assert shown["options"] == [], "only a person's own yes shows a secret"
            assert re.search(
                r'in this line\? .*password = "\[redacted [0-9a-f]{8}\]".*from cc_read app.lua', question, re.S
            )
            body = {"question_id": asked["fact"]["question_id"], "answer": answer}
            assert (await server.ask("POST", f"/v1/tasks/{task_id}/answer", body)).status_code == 200
            await server.ended(task_id)
            assert ("hunter2-Xy" in model.everything) is seen
            assert "tok_9f8e7d6c5b4a3210" not in model.everything


async def test_whose_approval_does_not_count_shows_no_secret(installation: Installation) -> None:
    """With `not_requester` the yes is another person's: the one who asked is refused, and told who decides."""

    def asks(told: str) -> dict[str, Any]:
        marker = re.search(r"password = \"(\[redacted [0-9a-f]{8}\])", told)
        assert marker is not None
        return says(call("ask_user", question=f"May the model see {marker[1]}?"))

    model = Hosted(says(READ), asks, says(READ))
    text = policy(FREE, secrets_to_model="ask")
    async with installation.open(model, policy=text, approvers="not_requester") as server:
        server.stub.disk.put("app.lua", FILE.encode())
        sam, rob = await server.person("sam"), await server.person("rob", "reviewer")
        task_id = await server.submit(token=sam)
        asked = await server.item(task_id, "question_asked")
        body = {"question_id": asked["fact"]["question_id"], "answer": "yes"}
        refused = await server.ask("POST", f"/v1/tasks/{task_id}/answer", body, token=sam)
        remedy = "This is decided by a reviewer or an admin, but not sam."
        assert (refused.status_code, refused.json()["error"]["remedy"]) == (403, remedy)
        assert (await server.ask("POST", f"/v1/tasks/{task_id}/answer", body, token=rob)).status_code == 200
        await server.ended(task_id)
        assert "hunter2-Xy" in model.everything


async def test_an_edited_question_is_what_people_read_and_a_yes_to_it_shows_no_secret(
    installation: Installation,
) -> None:
    """The words of the reviewer, with the marker of the secret as the reviewer saw it, are all that anybody gets."""

    def asks(told: str) -> dict[str, Any]:
        marker = re.search(r"password = \"(\[redacted [0-9a-f]{8}\])", told)
        assert marker is not None
        return says(call("ask_user", question=f"May the model see {marker[1]}?"))

    model = Hosted(says(READ), asks, says(READ))
    rules = (rule("reads", "allow", ["cc_read"]), rule("asks", "ask", ["ask_user"]))
    async with installation.open(model, policy=policy(*rules, secrets_to_model="ask")) as server:
        server.stub.disk.put("app.lua", FILE.encode())
        task_id, request = await server.asked()
        (asked,) = request["tool_calls"]
        (shown,) = MARKER.findall(asked["args"]["question"])
        edit = {"call_id": asked["call_id"], "action": "edit", "args": {"question": f"Has {shown} a good length?"}}
        assert (await server.decide(request, decisions=[edit])).status_code == 202
        opened = await server.item(task_id, "question_asked")
        question = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()["question"]["question"]
        assert question == f"Has {shown} a good length?"
        body = {"question_id": opened["fact"]["question_id"], "answer": "yes"}
        assert (await server.ask("POST", f"/v1/tasks/{task_id}/answer", body)).status_code == 200
        await server.ended(task_id)
        assert "hunter2-Xy" not in (await server.ask("GET", f"/v1/tasks/{task_id}/items")).text
        assert "hunter2-Xy" not in model.everything
        assert "a good length?" in model.everything, "the model is told which question was asked"


async def test_after_a_restart_the_markers_mean_the_same(kept_installation: Installation) -> None:
    """Another process goes on with the task: the marker that was shown before it began is still put back."""

    def edited(told: str) -> dict[str, Any]:
        return says(call("cc_write", path="copy.lua", content=text_of(told)))

    steps: tuple[Step, ...] = (says(READ), edited)
    rules = (rule("reads", "allow", ["cc_read"]), rule("asks", "ask", ["cc_write"]))
    async with kept_installation.open(Hosted(*steps), policy=policy(*rules)) as server:
        server.stub.disk.put("app.lua", FILE.encode())
        task_id, request = await server.asked()
    later = Hosted(*steps, lambda _: says(call("cc_write", path="again.txt", content=_marker_of(later))))
    async with kept_installation.open(later) as server:
        version = await server.version_of(request)
        await server.decide(request, "approve")
        await server.decide(await server.request(task_id, after=version), "approve")
        await server.ended(task_id)
        assert server.stub.disk.file("copy.lua").decode() == FILE
        assert server.stub.disk.file("again.txt").decode() == "hunter2-Xy"


def _marker_of(model: Hosted) -> str:
    found = re.search(r"password = \"(\[redacted [0-9a-f]{8}\])", model.now)
    assert found is not None
    return found[1]


# -- a computer's own token ----------------------------------------------------------------

FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda token: token,
    "reversed": lambda token: token[::-1],
    "spaced": " ".join,
    "down the page": "\n".join,
    "base64": lambda token: base64.b64encode(token.encode()).decode(),
    "base64 behind others": lambda token: base64.b64encode(b"ab" + token.encode()).decode(),
    "hex": lambda token: token.encode().hex(),
    "bytes": lambda token: ",".join(str(byte) for byte in token.encode()),
    "escapes": lambda token: "".join(f"\\x{byte:02x}" for byte in token.encode()),
    "swapped": str.swapcase,
    "pieces": lambda token: "\n\n".join(token[at : at + 9] for at in range(4, len(token), 9)),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("form", FORMS)
async def test_a_token_is_in_nothing_that_leaves_the_hub(installation: Installation, form: str) -> None:
    """Printed by a program, read from a file, shown as a program's source: no model, event or item has it."""
    made = FORMS[form]
    model = Local(
        says(call("cc_run_program", path="prints.lua")),
        says(call("cc_read", path="kept.lua")),
        says(call("cc_shell", command="kept.lua")),
    )
    said: list[str] = []
    rules = (rule("reads", "allow", ["cc_read", "cc_run_program"]), rule("asks", "ask", ["cc_shell"]))
    async with installation.open(model, policy=policy(*rules), programs={"prints.lua": lambda _: said[0]}) as server:
        token = server.stub._token
        said.append(made(token))
        server.stub.disk.put("kept.lua", said[0].encode())
        task_id, request = await server.asked()
        await server.decide(request, "approve")
        await server.ended(task_id)
        items = "\n".join(one.model_dump_json() for one in await server.items(task_id))
        events = (await server.ask("GET", f"/v1/tasks/{task_id}/items")).text
        bare = _letters(made(token))
        for told in (model.everything, items, events):
            assert _longest(_letters(told), bare) < 16, form
        assert server.stub.disk.file("kept.lua").decode() == said[0]


async def test_a_token_over_several_results_is_known_by_its_eighth_letter(installation: Installation) -> None:
    """One letter in each run: from the ninth on they are stars."""
    letters: list[str] = []
    model = Local(*[says(call("cc_run_program", path="prints.lua", args=[str(n)])) for n in range(12)])
    programs = {"prints.lua": lambda words: letters[int(words[0])]}
    async with installation.open(model, policy=policy(FREE), programs=programs) as server:
        letters += [one for one in server.stub._token[4:] if one.isalnum()]
        await submitted(server)
        printed = re.findall(r"Output:\n(.)\n", "\n".join(one.content for one in model.asked[-1]))
        # Letters that are hexadecimal digits alone are found later: a hash has such pieces too.
        hexadecimal = len(re.split("[g-z]", "".join(letters).lower(), maxsplit=1)[0])
        shown = min(max(8, hexadecimal), 12)
        assert "".join(printed[shown:]) == "*" * (12 - shown)


def _letters(text: str) -> str:
    return re.sub("[^0-9a-z]+", "", text.lower())


def _longest(text: str, wanted: str) -> int:
    """Of the pieces of a text that stand in another, the letters of the longest."""
    length = 0
    for at in range(len(wanted)):
        while wanted[at : at + length + 1] in text and at + length < len(wanted):
            length += 1
    return length


LOOKS = (call("cc_list", path="made"), call("cc_find", pattern="**", contains="inside"), call("cc_find", pattern="**"))


async def test_a_token_that_is_the_name_of_a_file_is_in_nothing_that_leaves_the_hub(installation: Installation) -> None:
    """Made by a program that is watched, listed, found and deleted: no model, event or item has the name."""

    def makes(_: list[str]) -> str:
        token, disk = installation.stubs["3"]._token, installation.stubs["3"].disk
        disk.put(f"made/{token}.lua", b"inside\n")
        disk.put(f"{token[::-1]}/a.lua", b"inside\n")
        return "made"

    steps = [call("cc_run_program", path="makes.lua"), *LOOKS, call("cc_delete", path="made"), *LOOKS]
    model = Local(*[says(one) for one in steps])
    async with installation.open(model, policy=policy(FREE, watch=["**"]), programs={"makes.lua": makes}) as server:
        token = server.stub._token
        task = await submitted(server)
        assert "these files changed" in model.everything
        task_id = task["task_id"]
        items = "\n".join(one.model_dump_json() for one in await server.items(task_id))
        events = (await server.ask("GET", f"/v1/tasks/{task_id}/items")).text
        for told in (model.everything, items, events, json.dumps(task)):
            assert _longest(_letters(told), _letters(token)) < 16
            assert _longest(_letters(told), _letters(token)[::-1]) < 16


def _down(token: str) -> str:
    """A screen with a letter of a token in each row, between other text."""
    return "\n".join(f"| row {number:02d} of many: {letter} |" for number, letter in enumerate(token))


async def test_a_token_down_the_columns_of_a_screen_is_in_nothing_that_leaves_the_hub(
    installation: Installation,
) -> None:
    """What a program printed, what a monitor shows and a file with the same rows."""
    looks = (call("cc_screen", of="monitor_0"), call("cc_read", path="down.txt"))
    model = Local(says(call("cc_run_program", path="prints.lua")), *[says(one) for one in looks])
    said: list[str] = []
    sign = StubPeripheral(("monitor",), screen=[])
    programs = {"prints.lua": lambda _: said[0]}
    async with installation.open(model, policy=policy(FREE), computer=False) as server:
        await server.connect("3", programs=programs, peripherals={"monitor_0": sign}, computer_id=3)
        token = server.stub._token
        said.append(_down(token))
        server.stub.disk.put("down.txt", said[0].encode())
        sign.screen = said[0].split("\n")
        task_id = (await submitted(server))["task_id"]
        items = "\n".join(one.model_dump_json() for one in await server.items(task_id))
        for told in (model.everything, items):
            letters = "".join(re.findall(r"of many: (\w) ", told))
            assert _longest(_letters(letters), _letters(token)) < 8
