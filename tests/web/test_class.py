"""A class at work: people are frozen and go on, with a real server, real sockets and computers that answer."""

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import QuotaReached
from orchestrator.core.ports import Identity, ModelReply
from orchestrator.core.task.facts import Usage
from orchestrator.core.task.task import AgentTask
from orchestrator.testing import ManualClock
from tests.contract.parts import Playing, policy, rule
from tests.harness.endpoints import ByPrompt, Writing
from tests.harness.support import WRITE, call, final, says
from tests.harness.whole_server import Installation, Opened
from tests.waiting import within

FROZEN_WITHIN_S = 5.0
"""It is a second on a machine that has nothing else to do."""
RUNS = {"run": (call("cc_run_program", path="long.lua"),)}
LONG = {"long.lua": b"print('began')\nsleep(1000)\nprint('over')\n"}


class Slow:
    """A model that answers a request only when a test says so, and counts the requests."""

    name = "slow"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun = asyncio.Event()
        self.answers = asyncio.Event()

    async def window(self) -> None:
        """It does not say."""

    async def reply(self, messages: Any, **_: object) -> ModelReply:
        self.asked.append(messages[1].content)
        self.begun.set()
        await self.answers.wait()
        return ModelReply(json.dumps(final()))


class Costly(Writing):
    """A model that writes, and whose replies cost so many tokens each."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self._tokens = tokens

    async def reply(self, messages: Any, **more: object) -> ModelReply:
        made = await super().reply(messages, **more)
        return ModelReply(made.text, usage=Usage(input_tokens=self._tokens - 10, output_tokens=10))


@asynccontextmanager
async def class_with(directory: Path, model: Any, **more: Any) -> AsyncIterator[tuple[Opened, dict[str, str]]]:
    """A server with the tutor tom, his students ann and bob, and sue of another group; their tokens."""
    text = more.pop("policy", "rules = []\n") + '[roles.tutor]\nmay = ["view", "decide", "freeze"]\n'
    async with Installation(directory).open(model, policy=text, **more) as server:
        people = {name: await server.person(name, "submitter") for name in ("ann", "bob", "sue")}
        people["tom"] = await server.person("tom", "tutor")
        group = {"add_people": ["tom", "ann", "bob"], "add_computers": ["3"]}
        assert (await server.ask("POST", "/v1/groups/class-7b", group)).status_code == 200
        yield server, people


async def freeze(server: Opened, token: str, verb: str = "freeze", **body: Any) -> dict[str, Any]:
    """Freeze or unfreeze; what the server answers."""
    answer = await server.ask("POST", f"/v1/{verb}", body, token=token)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def reason(server: Opened, task_id: str) -> list[str]:
    """Why a task stands where it does: on its page, and in the list."""
    one = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()
    rows = (await server.ask("GET", "/v1/tasks")).json()["tasks"]
    return [one["status_reason"], *(row["status_reason"] for row in rows if row["task_id"] == task_id)]


async def test_a_freeze_stops_the_model_and_a_task_goes_on_after_it(tmp_path: Path) -> None:
    """The request that was under way is dropped, none is made meanwhile, and the task ends well later."""
    model = Slow()
    async with class_with(tmp_path, model) as (server, people):
        task_id = await server.submit(["3"], token=people["ann"], prompt="of ann")
        await within(model.begun.wait())
        told = await freeze(server, people["tom"], person="ann", reason="we talk")
        assert (told["whom"], told["by"], told["tasks"]) == ("ann", "tom", 1)
        assert (await within(server.item(task_id, "work_frozen")))["fact"]["reason"] == "we talk"
        assert await reason(server, task_id) == ["Frozen by tom: we talk"] * 2
        model.answers.set()
        # Nothing of hers begins, and others go on: bob's task, which came later, is over before she is free.
        other = await server.submit(["3"], token=people["bob"])
        await server.until(other, "task_ended")
        assert model.asked.count("of ann") == 1
        assert await server.facts(task_id, "task_ended") == []
        assert (await freeze(server, people["tom"], "unfreeze", person="ann"))["ended"]
        assert (await server.until(task_id, "task_ended"))["status"] == "Completed"


async def test_a_freeze_stops_a_running_program(tmp_path: Path) -> None:
    """It is over at once; the task is not canceled, and the model is told why it ended."""
    async with class_with(tmp_path, ByPrompt(RUNS), policy=policy(rule("all", "allow")), files=LONG) as (
        server,
        people,
    ):
        task_id = await server.submit(["3"], token=people["ann"], prompt="run")
        await server.until(task_id, "tool_started")
        async with asyncio.timeout(FROZEN_WITHIN_S):
            await freeze(server, server.admin, everybody=True)
            finished = await server.item(task_id, "tool_finished")
        assert "Frozen by admin" in finished["fact"]["text"]
        assert (await server.task(task_id))["status"] == "Running"
        await freeze(server, server.admin, "unfreeze", everybody=True)
        assert (await server.until(task_id, "task_ended"))["status"] == "Completed"


async def test_what_waits_for_a_person_stays_and_is_not_decided(tmp_path: Path) -> None:
    """Neither a decision nor a new task, until the freeze is over; then the same request is decided."""
    async with class_with(tmp_path, Writing()) as (server, people):
        task_id = await server.submit(["3"], token=people["ann"])
        request = await server.paused(task_id)
        await freeze(server, people["tom"], group="class-7b", reason="lunch")
        refused = await server.ask("POST", f"/v1/approve/{request['request_id']}", token=people["tom"])
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "frozen")
        assert "Frozen by tom: lunch" in refused.json()["error"]["message"]
        body = {"prompt": "another", "computers": ["3"]}
        refused = await server.ask("POST", "/v1/tasks", body, token=people["bob"])
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "frozen")
        answer = await server.ask("POST", f"/v1/reject/{request['request_id']}", {"reason": "no"}, token=people["ann"])
        assert answer.status_code == 409
        listed = (await server.ask("GET", "/v1/freezes", token=people["bob"])).json()["freezes"]
        assert [(one["name"], one["by"], one["reason"]) for one in listed] == [("group:class-7b", "tom", "lunch")]
        assert (await server.ask("GET", "/v1/freezes", token=people["sue"])).json()["freezes"] == []
        assert (await server.ask("POST", "/v1/tasks", {"prompt": "x"}, token=people["sue"])).status_code == 201
        await freeze(server, people["tom"], "unfreeze", group="class-7b")
        # Its deadline stood still meanwhile: nobody could decide it.
        assert (await server.paused(task_id))["expires_at"] > request["expires_at"]
        assert (
            await server.ask("POST", f"/v1/approve/{request['request_id']}", token=people["tom"])
        ).status_code == 202
        assert (await server.until(task_id, "task_ended"))["status"] == "Completed"


async def test_a_freeze_is_told_without_secrets_and_to_its_end(tmp_path: Path) -> None:
    """A secret of its reason is shown nowhere; a program has none of its own; what still holds is said."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with class_with(tmp_path, Writing()) as (server, people):
        robot = await server.agent("robot", "submitter", owner="ann")
        task_id = await server.submit(["3"], token=robot)
        refused = await server.ask("POST", "/v1/freeze", {"person": "robot"}, token=people["tom"])
        assert (refused.status_code, refused.json()["error"]["remedy"][:9]) == (422, "Name ann:")
        shown = [await freeze(server, people["tom"], person="ann", reason=f"the token {secret} leaked.")]
        await freeze(server, people["tom"], group="class-7b")
        task = (await server.ask("GET", f"/v1/tasks/{task_id}", token=people["tom"])).json()
        assert (task["person"], task["freeze"]["name"]) == ("ann", "ann")
        refused = await server.ask("POST", "/v1/tasks", {"prompt": "x"}, token=people["ann"])
        shown += [task, refused.json(), (await server.ask("GET", "/v1/freezes", token=people["tom"])).json()]
        shown.append((await server.ask("GET", "/v1/whoami", token=people["ann"])).json())
        for one in shown:
            assert "leaked" in json.dumps(one)
            assert secret not in json.dumps(one)
        assert " leaked. Until they are unfrozen" in refused.json()["error"]["message"]
        ended = await freeze(server, people["tom"], "unfreeze", person="ann")
        assert (ended["ended"], ended["still"]["name"]) == (True, "group:class-7b")
        assert (await freeze(server, people["tom"], "unfreeze", group="class-7b"))["still"] is None
        assert (await server.ask("GET", "/v1/whoami", token=people["ann"])).json()["freeze"] is None


async def test_somebody_who_is_frozen_decides_nothing_for_others(tmp_path: Path) -> None:
    """Until they are unfrozen; a person who is free decides meanwhile."""
    async with class_with(tmp_path, Writing()) as (server, people):
        request = await server.paused(await server.submit(["3"], token=people["ann"]))
        await freeze(server, server.admin, person="tom")
        path = f"/v1/approve/{request['request_id']}"
        refused = await server.ask("POST", path, token=people["tom"])
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "frozen")
        assert "tom decides nothing" in refused.json()["error"]["message"]
        assert (await server.ask("POST", path)).status_code == 202


async def test_a_frozen_task_is_canceled_all_the_same(tmp_path: Path) -> None:
    """A freeze keeps nobody from giving a task up."""
    async with class_with(tmp_path, Writing()) as (server, people):
        task_id = await server.submit(["3"], token=people["ann"])
        await server.paused(task_id)
        await freeze(server, people["tom"], person="ann")
        answer = await server.ask("POST", f"/v1/tasks/{task_id}/cancel", {}, token=people["ann"])
        assert answer.json()["status"] == "Canceled"


async def test_a_freeze_reaches_as_far_as_the_right(tmp_path: Path) -> None:
    """A tutor freezes people of their own groups; a student nobody; a person of another group is not there."""
    async with class_with(tmp_path, Writing()) as (server, people):

        async def status(who: str, verb: str = "freeze", **body: Any) -> int:
            return (await server.ask("POST", f"/v1/{verb}", body, token=people[who])).status_code

        assert await status("tom", person="sue") == 404
        assert await status("tom", group="class-7c") == 404
        assert await status("tom", person="nobody") == 404
        assert await status("tom", everybody=True) == 403
        assert await status("ann", person="bob") == 403
        assert await status("ann", "unfreeze", person="ann") == 403
        assert await status("tom") == 422
        assert await status("tom", person="ann", everybody=True) == 422
        await freeze(server, server.admin, person="tom")
        assert await status("tom", "unfreeze", person="tom") == 403
        assert not (await freeze(server, server.admin, "unfreeze", person="ann"))["ended"]
        audited = await server.ask("GET", "/v1/audit/check")
        assert audited.json()["findings"] == []


async def test_a_freeze_outlives_the_server(tmp_path: Path) -> None:
    """It is in the store: the next start begins nothing of a frozen person either."""
    installation, model = Installation(tmp_path), Slow()
    model.answers.set()
    async with installation.open(Writing()) as server:
        await server.person("ann", "submitter")
        token = await server.person("bob", "submitter")
        task_id = await server.submit(["3"], token=token)
        await server.paused(task_id)
        await freeze(server, server.admin, person="bob")
    async with installation.open(model) as server:
        other = await server.submit(["3"])
        await server.until(other, "task_ended")
        assert (await server.task(task_id))["status"] == "Paused"
        assert await reason(server, task_id) == ["Frozen by admin"] * 2


# -- quotas ------------------------------------------------------------------------------


async def test_a_quota_of_tasks_ends_the_day_and_not_the_next(tmp_path: Path) -> None:
    """Counted from the store, with the tasks of a program of theirs: also by the next start of the server."""
    installation, clock = Installation(tmp_path), ManualClock()
    text = policy(rule("all", "allow")) + "[quotas]\ntasks = 2\n"
    body = {"prompt": "more", "computers": ["3"]}
    async with installation.open(Writing(), policy=text, clock=clock) as server:
        ann, bob = await server.person("ann"), await server.person("bob")
        program = await server.agent("bot", owner="ann")
        await server.until(await server.submit(["3"], token=ann), "task_ended")
        await server.until(await server.submit(["3"], token=program), "task_ended")
        for token in (ann, program):
            refused = await server.ask("POST", "/v1/tasks", body, token=token)
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota_reached")
        assert "The quota of 2 tasks a day is used up" in refused.json()["error"]["message"]
        assert "00:00 UTC, in 24 h 0 min" in refused.json()["error"]["remedy"]
        assert (await server.ask("POST", "/v1/tasks", body, token=bob)).status_code == 201
    async with installation.open(Writing()) as server:
        assert (await server.ask("POST", "/v1/tasks", body, token=ann)).status_code == 429
        clock.advance(24 * 3600)
        assert (await server.ask("POST", "/v1/tasks", body, token=ann)).status_code == 201


@pytest.mark.parametrize("keyed", [False, True])
async def test_submits_at_once_do_not_pass_the_quota(tmp_path: Path, keyed: bool) -> None:
    """Of ten at the same moment as many are taken as the quota says; one that comes ten times is one task."""
    text = policy(rule("all", "allow")) + "[quotas]\ntasks = 1\n"
    async with Installation(tmp_path).open(Writing(), policy=text) as server:
        # Not over HTTP, which now and then brings them one after the other.
        service, sam = server.orchestrator.service, Identity("person", "sam", ("submitter",), "token")
        key = "k1" if keyed else ""
        submits = (service.submit("go", user=sam, model="m", key=key) for _ in range(10))
        answers = await asyncio.gather(*submits, return_exceptions=True)
        assert sum(isinstance(one, AgentTask) for one in answers) == (10 if keyed else 1)
        assert {type(one) for one in answers} <= {AgentTask, QuotaReached}
        assert len(await service.store.list_tasks(users={"sam"})) == 1


async def test_a_quota_of_tokens_ends_the_task_with_words(tmp_path: Path) -> None:
    """Before the request that would go beyond it; of a person in a group that has more, it does not."""
    text = policy(rule("all", "allow")) + "[quotas]\ntokens = 50\n[quotas.groups.class-7b]\ntokens = 100_000\n"
    async with class_with(tmp_path, Costly(60), policy=text) as (server, people):
        await server.ask("POST", "/v1/groups/club", {"add_people": ["sue"], "add_computers": ["3"]})
        task_id = await server.submit(["3"], token=people["sue"])
        ended = await server.until(task_id, "task_ended")
        assert (ended["status"], ended["status_reason"]) == ("Failed", "quota")
        assert "The quota of 50 tokens a day is used up: 60 were used." in ended["result"]["message"]
        refused = await server.ask("POST", "/v1/tasks", {"prompt": "x"}, token=people["sue"])
        assert refused.status_code == 429
        for _ in range(2):
            task_id = await server.submit(["3"], token=people["ann"])
            assert (await server.until(task_id, "task_ended"))["status"] == "Completed"


async def test_one_running_task_each(tmp_path: Path) -> None:
    """While a program of hers runs, another task of ann's waits, and one of bob's does not."""
    text = policy(rule("all", "allow")) + "[quotas]\nrunning = 1\n"
    async with class_with(tmp_path, ByPrompt(RUNS), policy=text, files=LONG) as (server, people):
        long = await server.submit(["3"], token=people["ann"], prompt="run")
        await server.until(long, "tool_started")
        waits = await server.submit([], token=people["ann"])
        other = await server.submit([], token=people["bob"])
        await server.until(other, "task_ended")
        assert await server.facts(waits, "model_asked") == []
        await server.ask("POST", f"/v1/tasks/{long}/cancel", {})
        await server.until(waits, "task_ended")


# -- hints -------------------------------------------------------------------------------


async def test_a_model_explains_and_writes_only_after_the_attempt_of_its_user(tmp_path: Path) -> None:
    """It is told to explain, asks, and is told so again; once the file was changed, a person decides as ever."""
    ask = call("ask_user", question="Try it: then say so.")
    model = Playing(says(WRITE), says(ask), says(WRITE), says(ask), says(WRITE), final())
    text = policy(rule("all", "allow"), rule("try-first", "hint", ["cc_write"], groups=["class-7b"]))
    async with class_with(tmp_path, model, policy=text) as (server, people):
        task_id, seen = await server.submit(["3"], token=people["ann"]), 0
        for attempt in ("I did not", "I did"):
            question = (await server.item(task_id, "question_asked", after=seen))["fact"]
            seen = await server.version(task_id)
            ended = await server.facts(task_id, "request_ended")
            assert {one.code for one in ended} == {"hint"}
            if attempt == "I did":
                server.stub.disk.put("a.lua", b"-- by ann\n")
            answer = {"question_id": question["question_id"], "answer": attempt}
            told = await server.ask("POST", f"/v1/tasks/{task_id}/answer", answer, token=people["ann"])
            assert told.status_code == 200, told.text
        request = await server.paused(task_id)
        assert "by ann" in request["tool_calls"][0]["observed"]["diff"]
        assert len(await server.facts(task_id, "request_ended")) == 2
        assert (await server.decide(request, "approve", token=people["tom"])).status_code == 202
        await server.until(task_id, "task_ended")
        assert server.stub.disk.file("a.lua") != b"-- by ann\n"
        assert (await server.ask("GET", "/v1/audit/check")).json()["findings"] == []


# -- the export --------------------------------------------------------------------------


async def test_an_export_has_what_each_did_and_no_secret(tmp_path: Path) -> None:
    """Tasks, diffs, decisions, questions and time, as JSON and as a page that runs nothing; only one's own group."""
    key = "sk-ant-api03-" + "Zq7" * 12
    call_ = call("cc_write", path="a.lua", content=f"-- <script>alert(1)</script> {key}\n")
    model = Playing(says(call("ask_user", question="Which <b>chest</b>?")), says(call_), says(WRITE), final())
    async with class_with(tmp_path, model, policy=policy(rule("all", "allow"), rule("w", "ask", ["cc_write"]))) as (
        server,
        people,
    ):
        rita = await server.person("rita", "reviewer")
        await server.ask("POST", "/v1/groups/class-7b", {"add_people": ["rita"]})
        task_id = await server.submit(["3"], token=people["ann"], prompt="fix it")
        question = (await server.item(task_id, "question_asked"))["fact"]
        answer = {"question_id": question["question_id"], "answer": "the left one"}
        await server.ask("POST", f"/v1/tasks/{task_id}/answer", answer, token=people["ann"])
        request = await server.paused(task_id)
        await server.decide(request, "approve", token=rita, reason="well done")
        first = request["request_id"]
        other = await server.item(task_id, "review_requested", where=lambda one: one["request_id"] != first)
        await server.decide(other["fact"]["request_id"], "approve", token=rita)
        await server.until(task_id, "task_ended")
        outside = await server.person("oto", "reviewer")
        path = "/v1/groups/class-7b/export"
        assert [(await server.ask("GET", path, token=one)).status_code for one in (people["ann"], outside)] == [
            403,
            404,
        ]
        assert (await server.ask("GET", path + "?since=soon", token=rita)).status_code == 422
        answered = await server.ask("GET", path, token=rita)
        assert answered.headers["content-type"] == "application/zip"
        files = unzipped(answered.content)
        assert set(files) == {
            *(f"class-7b/{name}.{kind}" for name in ("ann", "bob", "tom", "rita", "index") for kind in ("json", "html"))
        }
        told = json.loads(files["class-7b/ann.json"])
        (task,) = told["tasks"]
        assert (task["prompt"], task["status"], told["total"]["tasks"]) == ("fix it", "Completed", 1)
        assert [(one["question"], one["answer"]) for one in task["questions"]] == [
            ("Which <b>chest</b>?", "the left one")
        ]
        written = task["calls"][1]
        assert (written["tool"], written["outcome"]) == ("cc_write", "done")
        assert [(one["by"], one["action"], one["reason"]) for one in written["decisions"]] == [
            ("rita", "approve", "well done")
        ]
        assert "+-- <script>" in written["diff"]
        assert task["seconds"]["waiting"] >= 0
        assert not any(key in text for text in files.values())
        page = files["class-7b/ann.html"]
        assert "<script" not in page
        assert "&lt;script&gt;" in page
        assert [said.partition("<")[0] for said in page.split("approve by ")[1:]] == ["rita: well done", "rita"]
        assert page.count("Which ") == 1, "what is told as a question is not told as a call"
        assert "ask_user" not in page
        assert json.loads(files["class-7b/bob.json"])["tasks"] == []
        later = await server.ask("GET", path + "?since=2100-01-01", token=rita)
        assert json.loads(unzipped(later.content)["class-7b/ann.json"])["tasks"] == []


def unzipped(content: bytes) -> dict[str, str]:
    """The files of an archive, as text."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}
