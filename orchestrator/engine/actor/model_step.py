"""Asking the model, and turning its reply into calls or an end."""

import asyncio
import logging
import secrets
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.core.approval.approval import call_digest
from orchestrator.core.errors import ModelFailed, ReplyRefused, WindowTooSmall
from orchestrator.core.evidence.checks import failing, said_unknown, told_failing
from orchestrator.core.model_view.masks import TOLD, Mask, asks_to_see, has_marker
from orchestrator.core.model_view.prompt import Window, unread
from orchestrator.core.model_view.view import View
from orchestrator.core.policy import BUILT_IN_CATALOG, RiskLevel, SecretsToModel, no_such_tool
from orchestrator.core.ports import ChatModel, ModelReply, is_local, server_answers
from orchestrator.core.reply.response import VERSION as NO_VERSION
from orchestrator.core.reply.response import (
    FinalResult,
    RequestedTool,
    ToolRequest,
    canonical_args,
    read_reply,
    stranger_name,
)
from orchestrator.core.task import facts
from orchestrator.core.task.facts import BlobRef
from orchestrator.core.task.items import SYSTEM, Actor
from orchestrator.core.task.limits import Tokens
from orchestrator.core.task.repeats import STOP_AT, times
from orchestrator.core.task.states import Phase
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from orchestrator.engine.actor.checks import Checker, checks_failed, final_end
from orchestrator.engine.actor.gate import Gate
from orchestrator.engine.actor.interrupts import (
    Leaving,
    Stopped,
    Wait,
    Watch,
    ended_by,
    is_canceled,
    is_over,
    limit_of,
    look_again_in_s,
    may_ask_in_s,
    stuck,
    too_long,
    until_it_is_asked,
    wait_for,
)
from orchestrator.engine.actor.journal import AGENT, Follow, Hints, TaskJournal
from orchestrator.engine.actor.talks import Talk
from orchestrator.engine.tasks import new_call_id

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
"""Requests to the model for one step before the task fails."""


@dataclass
class Thinking:
    """The model's side of one task."""

    journal: TaskJournal
    gate: Gate
    model: ChatModel
    watch: Watch
    hints: Hints
    leaving: Leaving
    begin: Follow
    """The facts that are recorded together with a call that may run at once."""
    checker: Checker
    talk: Talk = field(default_factory=Talk)
    _told: tuple[str, str, str] = ("", "", "")
    """The version of the policy last told of, whether secrets were told, and in which words."""
    _window: Window | None = None
    _knows_window: bool = False
    _recorded_at: int = 0
    """The version at which a request was recorded together with the outcome before it; 0: none is waiting."""

    async def ask(self, attempt: int) -> float | None:
        """Ask for the next reply and record it; seconds to wait before another attempt, or None.

        Limits are checked here, before every request (promise L3).
        """
        task = self.journal.task
        if self._recorded_at != task.version:
            reached = limit_of(task, self.journal.service.clock.now())
            reached = reached or await self._quota(task)
            if reached is not None:
                await self._fail(await self._with_why(reached, task))
                return None
            if task.phase is Phase.WAITING and not await self._answers(task):
                return await self._go_on_waiting(task)
            await self._texts(task)
            if not await self._intended(task, attempt):
                return None
        self._recorded_at = 0
        task = self.journal.task
        try:
            reply = await self._generate(task)
        except (Exception, asyncio.CancelledError) as raised:
            # A model is anybody's code: whatever it raises ends the task, honestly.
            if isinstance(raised, asyncio.CancelledError) and is_canceled():
                raise
            error = raised if isinstance(raised, ModelFailed) else _defect(self.model.name, raised)
            if error.server and (task.wait_for_model or self.journal.service.model_wait_s):
                return await self._began_to_wait(error)
            attempts = task.attempt - task.excused
            if attempts < MAX_ATTEMPTS and not error.lasting:
                logger.warning("task %s: %s", task.task_id, error)
                return 2.0**attempts
            await self._gave_up(task, error)
            return None
        if reply is not None:
            await self._replied(reply)
        return None

    async def _quota(self, task: AgentTask) -> facts.LimitReached | None:
        """The quota of the task's person that forbids another request today; None: it may be made."""
        why = await self.journal.service.quotas.why_no_request(task.user_id)
        return facts.LimitReached(limit="quota", detail=why) if why else None

    async def _began_to_wait(self, away: ModelFailed) -> float | None:
        """Record that the model server is waited for; the seconds until it is looked for, None: the task has ended."""
        service, task = self.journal.service, self.journal.task
        wait = wait_for(task, away, service.clock.now(), service.model_wait_s)
        if wait is None:
            await self._gave_up(task, too_long(task, away.server, str(away), service.clock.now()))
            return None
        logger.warning("task %s waits for its model server: %s", task.task_id, away)
        await self.journal.intend(wait)
        return look_again_in_s(self.journal.task, service.clock.now())

    async def _answers(self, task: AgentTask) -> bool:
        """Whether the model server that a task waits for answers by now, and may be asked again."""
        now = self.journal.service.clock.now()
        if may_ask_in_s(task, now) > 0 and not is_over(task, now):
            return False
        with Stopped() as stopped, self.watch.stopping(stopped.stop), self.leaving.cutting(stopped.stop):
            answers = True
            with until_it_is_asked():
                answers = await server_answers(self.model)
            return answers
        return False

    async def _go_on_waiting(self, task: AgentTask) -> float | None:
        """Seconds until the model server is looked for again; None: the wait is over, and the task has ended."""
        now = self.journal.service.clock.now()
        if task.awaited is None or not is_over(task, now):
            return look_again_in_s(task, now)
        await self._gave_up(task, too_long(task, task.awaited.server, task.awaited.why, now))
        return None

    def ask_next(self, task: AgentTask) -> tuple[tuple[facts.Fact, Actor], ...]:
        """The request to the model that follows when a step is done, to be recorded with the step's last outcome."""
        now = self.journal.service.clock.now()
        if (
            task.phase is not Phase.THINKING
            or task.restores is not None
            or self.leaving.begun
            or self.watch.freeze is not None
        ):
            return ()
        if self._missing(task) or limit_of(task, now) is not None:
            return ()
        if self.journal.service.quotas.counts_requests(task.user_id):
            # They are counted in the store, which has to be asked first.
            return ()
        if not self._knows_window:
            return ()
        try:
            request = self._request(task, 1)
        except WindowTooSmall:
            # It is said with the next request, which then ends the task.
            return ()
        if self._budget(task).passed() is not None:
            return ()
        self._recorded_at = task.version + 1
        return ((request, SYSTEM),)

    async def read(self, raw: BlobRef) -> Wait | None:
        """Read a reply that is recorded and no more: one that the last actor left, or a claim that is to be checked.

        The answer is what has to be waited for; None: nothing.
        """
        task = self.journal.task
        await self._text(raw)
        await self._texts(task)
        claim = self._claim(task)
        if claim is None:
            for fact, actor in self._understood(task):
                await self.journal.intend(fact, actor=actor)
            return None
        results = await self.checker.go()
        if results is None or isinstance(results, Wait):
            return results
        again = task.checking.results == results and not task.checking.moved
        judged = () if again else (facts.ChecksJudged(results=results),)
        await self.journal.intend(*judged, *self._verdict(task, claim, results, again=again))
        return None

    def _claim(self, task: AgentTask) -> FinalResult | None:
        """The claim of success that the present reply is, where checks are due.

        None: it does not claim success, or no checks are due.
        """
        if task.reply is None or not self.checker.due(task):
            return None
        try:
            reply = read_reply(self.talk.texts[task.reply.sha256], finish_reason=task.done_reason, unknown_tools="keep")
        except ReplyRefused:
            return None
        return reply if isinstance(reply, FinalResult) and reply.success else None

    def _verdict(
        self, task: AgentTask, claim: FinalResult, results: tuple[facts.CheckResult, ...], *, again: bool
    ) -> tuple[facts.Fact, ...]:
        """The verdict on a claim of success by its checks; ``again``: nothing was done since they were judged."""
        if failing(results):
            if again or limit_of(task, self.journal.service.clock.now()) is not None:
                return (checks_failed(claim, results),)
            return (facts.ReplyRefused(reason=told_failing(results), because="unproven"),)
        if any(one.holds is None for one in results):
            return (final_end(claim, lacks=said_unknown(results)),)
        return tuple(fact for fact, _ in self._final(task, claim))

    async def _intended(self, task: AgentTask, attempt: int) -> bool:
        """Record the next request; False: it cannot be made, and the task has ended."""
        try:
            await self._look_at_window()
            request = self._request(task, attempt)
        except WindowTooSmall as small:
            await self._fail(facts.LimitReached(limit="window", detail=str(small)))
            return False
        passed = self._budget(task).passed()
        if passed is not None:
            await self._gave_up(task, passed, limit="max_tokens")
            return False
        await self.journal.intend(request)
        return True

    def _budget(self, task: AgentTask) -> Tokens:
        """The tokens of the task, with the request whose messages the view has by now."""
        view = self.talk.view
        prompt, counted = (view.tokens, view.counted) if view is not None else (0, 0)
        return Tokens(task.max_tokens, task.tokens + task.uncounted, task.uncounted, prompt, counted)

    async def _look_at_window(self) -> None:
        if self._knows_window or self.watch.halted:
            return
        with Stopped() as stopped, self.watch.stopping(stopped.stop), until_it_is_asked():
            self._window, self._knows_window = await self.model.window(), True

    def _request(self, task: AgentTask, attempt: int) -> facts.ModelAsked:
        """The request as it is recorded; the messages to send are those of the view by now."""
        version, secrets = self.gate.active_policy.version, self._secrets()
        if self._told[:2] != (version, secrets):
            self._told = (version, secrets, f"{self.gate.active_policy.summary(task)}{TOLD[secrets]}")
        prompt, policy, window = self.journal.service.prompt, self._told[2], self._window
        view = self.talk.view
        if view is None or not view.leads_to(task, prompt=prompt, policy=policy, window=window, secrets=secrets):
            view = View(task, prompt=prompt, policy=policy, window=window, secrets=secrets)
        self.talk.extend(view, task)
        return facts.ModelAsked(
            attempt=attempt,
            prompt_version=prompt.version,
            policy_version=version,
            view_digest=view.digest,
            num_ctx=window.num_ctx if window is not None else 0,
            num_predict=window.num_predict if window is not None else 0,
            prompt_tokens=view.tokens if task.max_tokens else 0,
        )

    def _secrets(self) -> SecretsToModel:
        """Whether the model is told secrets: as the policy says, else by where the model's server is."""
        said = self.gate.active_policy.secrets_to_model
        return said if said is not None else "allow" if is_local(self.model) else "mask"

    def _mask(self, task: AgentTask) -> Mask:
        """The markers that the model was told instead of secrets by the time of its present reply."""
        view = self.talk.view
        if view is not None and view.mask is not None and view.turns == len(task.turns) and view.begins(task):
            return view.mask
        # The reply was asked for under another policy, or by another actor.
        secrets = self._secrets()
        told = View(task, prompt=self.journal.service.prompt, secrets="mask" if secrets == "allow" else secrets)
        told.extend(task, self.talk.texts)
        assert told.mask is not None, "it was asked to mask"
        return told.mask

    def _with_secrets(self, wanted: RequestedTool) -> dict[str, Any]:
        """The arguments of a call with the secrets whose markers the model used. Raises ReplyRefused."""
        args = dict(wanted.args)
        spec = BUILT_IN_CATALOG.get(wanted.tool)
        if spec is None or not has_marker(args):
            return args
        if spec.plugin == "people":
            asks = wanted.tool == "ask_user" and self._secrets() == "ask"
            return self._asked_in_words(args) if asks else args
        mask, strict = self._mask(self.journal.task), self._secrets() != "allow"
        restored = {name: mask.restored(value, strict=strict) for name, value in args.items()}
        return canonical_args(wanted.tool, restored) if restored != args else args

    def _asked_in_words(self, args: dict[str, Any]) -> dict[str, Any]:
        """A question in words for a person; one for a secret has no choices: a person's own yes shows it."""
        question = str(args["question"])
        asked = {**args, "question": self._mask(self.journal.task).in_words(question)}
        return {"question": asked["question"]} if asks_to_see(question) else asked

    async def _generate(self, task: AgentTask) -> ModelReply | None:
        """The model's reply; None: it was stopped before it came: the task is halted, or the node is about to stop."""
        if self.watch.halted or self.leaving.cuts_models:
            return None
        hints = self.hints.reply(task.steps + 1)
        left = self._budget(task).reply
        with Stopped() as stopped, self.watch.stopping(stopped.stop), self.leaving.cutting(stopped.stop):
            try:
                return await self.model.reply(
                    self.talk.messages(),
                    on_text=hints,
                    max_output_tokens=left,
                    user=task.user_id,
                    affinity=task.task_id,
                    one_computer=len(task.computers) <= 1,
                )
            finally:
                hints.close()
        return None

    async def _replied(self, reply: ModelReply) -> None:
        content = reply.text.encode("utf-8", "replace")
        # Half a surrogate pair is not a character: nobody knows which one was meant, so it counts as broken off.
        done_reason = reply.done_reason if content.decode() == reply.text else "aborted"
        raw = BlobRef(sha256=sha256_hex(content), size=len(content))
        self.talk.texts[raw.sha256] = content.decode()
        replied = facts.ModelReplied(raw=raw, done_reason=done_reason, usage=reply.usage)
        await self.journal.happened(replied, AGENT, blobs=(content,), follow=self._understood, start=self.begin)

    def _understood(self, task: AgentTask) -> tuple[tuple[facts.Fact, Actor], ...]:
        """The meaning of a reply: an end, calls with the policy's verdicts, or a refusal that tells the model why."""
        if task.phase is not Phase.REPLIED or task.reply is None or self._claim(task) is not None:
            return ()
        try:
            text = self.talk.texts[task.reply.sha256]
            alone = len(task.computers) <= 1
            reply = read_reply(text, finish_reason=task.done_reason, unknown_tools="keep", one_computer=alone)
            if isinstance(reply, FinalResult):
                return self._final(task, reply)
            calls = self._calls(reply)
        except ReplyRefused as refused:
            return ((facts.ReplyRefused(reason=refused.message), SYSTEM),)
        count = 1 + times(task.repeats, (call.call_digest for call in calls))
        if count >= STOP_AT:
            return tuple((fact, SYSTEM) for fact in ended_by(stuck(calls, task, count), task))
        judged, by = self.gate.judge_all(calls), self.gate.active_policy.rules
        said = reply.explanation
        proposed = facts.CallsProposed(
            explanation=said, calls=calls, evaluations=judged, siblings=by.siblings, partial=by.partial
        )
        return ((proposed, AGENT),)

    def _final(self, task: AgentTask, reply: FinalResult) -> tuple[tuple[facts.Fact, Actor], ...]:
        """The end, or once a refusal of a success that the journal does not support, while another step is left."""
        # Its patterns take a quarter of the start of a server, which imports it once it listens.
        from orchestrator.core.evidence.verdict import doubt, is_answer

        if reply.success and is_answer(task.evidence, reply, prompt=task.prompt):
            return ((final_end(reply, "answered"), SYSTEM),)
        lacks = None
        if reply.success:
            names = task.computers
            lacks = doubt(task.evidence, reply, prompt=task.prompt, read_only=task.read_only, computers=names)
        if lacks is None or task.doubted or limit_of(task, self.journal.service.clock.now()) is not None:
            return ((final_end(reply, lacks=lacks), SYSTEM),)
        return ((facts.ReplyRefused(reason=lacks, because="unproven"), SYSTEM),)

    def _calls(self, request: ToolRequest) -> tuple[facts.ToolCall, ...]:
        risk = RiskLevel(request.risk) if request.risk is not None else None
        return tuple(self._call(index, wanted, risk) for index, wanted in enumerate(request.calls))

    def _call(self, index: int, wanted: RequestedTool, risk: RiskLevel | None) -> facts.ToolCall:
        spec = BUILT_IN_CATALOG.get(wanted.tool)
        tool, version, args, computer = wanted.tool, NO_VERSION, self._with_secrets(wanted), None
        if spec is not None and spec.planned:
            raise ReplyRefused(no_such_tool(wanted.tool, BUILT_IN_CATALOG))
        if spec is None:
            # It goes to the gate, which denies it (promise P1).
            tool = stranger_name(wanted.tool, salt=self.journal.task.tag)
        else:
            version = spec.version
            named = args.pop("computer", None)
            computer = self._computer(tool, named) if spec.plugin == "cc" else None
        return facts.ToolCall(
            call_id=new_call_id(),
            index=index,
            tool=tool,
            args=args,
            computer=computer,
            call_digest=call_digest(tool=tool, tool_version=version, args=args, computer=computer),
            stated_risk=risk,
        )

    def _computer(self, tool: str, named: str | None) -> ComputerId:
        computers, names = self.journal.task.computers, self.journal.task.named_computers
        if not computers:
            raise ReplyRefused(f"This task has no computer, so {tool} cannot be used.")
        if named is None and len(computers) == 1:
            return computers[0]
        if named in names:
            return computers[names.index(ComputerId(named))]
        if len(names) == 1:
            raise ReplyRefused(f"This task has only the computer {names[0]}. Leave computer out of {tool}.")
        raise ReplyRefused(f"Name the computer of {tool}: one of {', '.join(names)}.")

    async def _texts(self, task: AgentTask) -> None:
        """Have every reply that the view still lacks."""
        for raw in self._missing(task):
            await self._text(raw)

    def _missing(self, task: AgentTask) -> list[BlobRef]:
        # A view of another policy has the same replies, so they are all known.
        view = self.talk.view
        shown = view.turns if view is not None and view.begins(task) else 0
        return [turn.raw for turn in task.turns[shown:] if turn.raw.sha256 not in self.talk.texts]

    async def _text(self, raw: BlobRef) -> str:
        if raw.sha256 not in self.talk.texts:
            self.talk.texts[raw.sha256] = (await self.journal.service.store.get_blob(raw.sha256)).decode()
        return self.talk.texts[raw.sha256]

    async def _gave_up(
        self, task: AgentTask, why: ModelFailed | str, *, limit: Literal["model_failed", "max_tokens"] = "model_failed"
    ) -> None:
        """End the task without another reply: by the success that was refused just now, or as failed."""
        if task.turns and task.turns[-1].unproven and not failing(task.checking.results):
            claimed = read_reply(await self._text(task.turns[-1].raw))
            if isinstance(claimed, FinalResult):
                await self.journal.intend(final_end(claimed, lacks=task.turns[-1].refused))
                return
        await self._fail(facts.LimitReached(limit=limit, detail=str(why)))

    async def _with_why(self, reached: facts.LimitReached, task: AgentTask) -> facts.LimitReached:
        """The limit; where it is replies that could not be read, with what came and what to try."""
        if reached.limit != "model_output":
            return reached
        last = task.turns[-task.refusals :]
        limit = self._window.num_predict if self._window is not None else 0
        text = await self._text(last[-1].raw)
        told = unread([one.refused or "" for one in last], text, num_predict=limit, salt=secrets.token_hex(8))
        return reached.model_copy(update={"detail": told})

    async def _fail(self, reached: facts.LimitReached) -> None:
        await self.journal.intend(*ended_by(reached, self.journal.task))


def _defect(name: str, raised: BaseException) -> ModelFailed:
    return ModelFailed(f"The model {name} met a defect: {type(raised).__name__}: {raised}")
