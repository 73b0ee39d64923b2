"""A task whose calls change and run files of a disk in memory: what the journal then shows of it."""

import hashlib
from typing import Any

from orchestrator.core.evidence.evidence import Evidence
from orchestrator.core.evidence.verdict import doubt, is_answer
from orchestrator.core.policy import RiskLevel
from orchestrator.core.reply.response import FinalResult
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId
from tests.core.journal import REQUEST, Journal, call, requested

ABSENT = "absent"


def sha(text: str) -> str:
    """The hash of a file with this text."""
    return hashlib.sha256(text.encode()).hexdigest()


class Disk(Journal):
    """A journal, and the files by path that its calls leave; each call is a step of its own."""

    def __init__(self, prompt: str = "Mend the quarry.", **files: str) -> None:
        super().__init__()
        self.submitted(prompt=prompt)
        self.files = {name.replace("_", "."): text for name, text in files.items()}

    def write(self, path: str, content: str = "print(1)", **more: Any) -> Evidence:
        """A file is written whole."""
        before, self.files[path] = self._sha(path), content
        return self._changed(
            "cc_write", {"path": path, "content": content}, {path: before}, {path: sha(content)}, **more
        )

    def edit(self, path: str, new: str, **more: Any) -> Evidence:
        """A file gets this text."""
        before, self.files[path] = self._sha(path), new
        args = {"path": path, "old": "x", "new": new}
        return self._changed("cc_edit", args, {path: before}, {path: sha(new)}, **more)

    def delete(self, path: str, before: str = "") -> Evidence:
        """A file or a directory is deleted."""
        found = before or self._sha(path)
        self.files.pop(path, None)
        return self._changed("cc_delete", {"path": path}, {path: found}, {path: ABSENT})

    def move(self, path: str, to: str, before: str = "") -> Evidence:
        """A file or a directory is moved."""
        found = before or self._sha(path)
        if path in self.files:
            self.files[to] = self.files.pop(path)
        args = {"path": path, "to": to}
        return self._changed("cc_move", args, {path: found, to: ABSENT}, {path: ABSENT, to: found})

    def mkdir(self, path: str) -> Evidence:
        """A directory is made."""
        return self._changed("cc_mkdir", {"path": path}, {path: ABSENT}, {path: sha("")})

    def run(self, path: str, ended: facts.ProgramEnd = "finished", out: str = "", **more: Any) -> Evidence:
        """A program runs."""
        args = {"path": path, "args": more.pop("args", [])} if "command" not in more else {"command": more["command"]}
        tool = "cc_shell" if "command" in args else "cc_run_program"
        ran = facts.Ran(
            path=path, sha256=self._sha(path), ended=ended, seconds=more.pop("seconds", 0.0), tabs=more.pop("tabs", ())
        )
        ok = ended in ("finished", "observed", "timed_out")
        text = (
            f"Program {path} executed successfully.\nOutput:\n{out}" if ok else out or f"{path}:3: attempt to index nil"
        )
        more.pop("command", None)
        return self.step(tool, ok=ok, text=text, before={path: ran.sha256}, ran=ran, **args, **more)

    def ran(self, path: str) -> facts.Ran:
        """That a program ran to its end."""
        return facts.Ran(path=path, sha256=self._sha(path), ended="finished", seconds=0.0)

    def read(self, path: str) -> Evidence:
        """A file is read."""
        return self.step("cc_read", text=self.files.get(path, "x"), path=path)

    def _changed(
        self, tool: str, args: dict[str, Any], before: dict[str, str], after: dict[str, str], **more: Any
    ) -> Evidence:
        return self.step(tool, before=before, after=after, **args, **more)

    def _sha(self, path: str) -> str:
        return sha(self.files[path]) if path in self.files else ABSENT

    def step(
        self,
        tool: str,
        *,
        ok: bool = True,
        text: str = "so",
        before: dict[str, str] | None = None,
        after: dict[str, str] | None = None,
        lines: tuple[int, int] | None = None,
        only_comments: bool = False,
        ran: facts.Ran | None = None,
        changed: tuple[str, ...] = (),
        on: str = "3",
        checks: tuple[str, ...] = (),
        **args: Any,
    ) -> Evidence:
        """One call that ran, of the model or for a check; the evidence after it."""
        name = f"c{len(self.items)}"
        self.proposed([call(name, tool, computer=on, **args)], "allow", checks=checks)
        watched = facts.Watched(changed=changed) if changed else None
        self.started(name, before=before or {}, lines=lines, only_comments=only_comments)
        self.finished(name, ok=ok, text=text, after=after or {}, ran=ran, watched=watched)
        if checks:
            self.add(facts.ChecksJudged(results=()))
            self.add(facts.ReplyRefused(reason="?", because="unproven"))
        return self.task.evidence

    def preview_of(self, call_id: str, observed: facts.Observed) -> facts.ReviewRequested:
        """The request that shows a person this of a call."""
        return facts.ReviewRequested(
            request_id=REQUEST,
            reason="approval",
            calls=(requested(call_id).model_copy(update={"observed": observed}),),
            risk=RiskLevel.MEDIUM,
            policy_version="v1",
        )

    def denied(self, tool: str) -> Evidence:
        """One call that the policy denied."""
        self.proposed([call(f"c{len(self.items)}", tool)], "deny")
        return self.task.evidence

    def refused(self, tool: str, **args: Any) -> Evidence:
        """One call that was refused before it ran."""
        name = f"c{len(self.items)}"
        self.proposed([call(name, tool, computer="3", **args)], "allow")
        self.add(
            facts.RequestEnded(
                request_id=None, end="superseded", call_ids=(CallId(name),), reason="This is not Lua that runs."
            )
        )
        return self.task.evidence

    def lacks(self, message: str = "It is done as you asked.", *, read_only: bool = False, **more: Any) -> str:
        """What a success with this message lacks; empty: nothing."""
        names = more.pop("computers", ())
        final = FinalResult(**{"explanation": "", "success": True, "message": message, **more})
        task = self.task
        return doubt(task.evidence, final, prompt=task.prompt, read_only=read_only, computers=names) or ""

    def answers(self, message: str) -> bool:
        """Whether a success with this message is an answer that needs no computer."""
        final = FinalResult(explanation="", success=True, message=message)
        return is_answer(self.task.evidence, final, prompt=self.task.prompt)
