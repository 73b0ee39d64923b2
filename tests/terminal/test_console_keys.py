"""The keys at the prompt: what each decides, and that nothing else decides anything."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.core.approval.approval import DECISIONS, CallDecision, HitlResponse, ResumeRequest
from orchestrator.core.errors import NotPending
from orchestrator.core.policy import RiskLevel
from orchestrator.core.task.facts import CallId, Observed, RequestId
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.terminal.console import Console
from tests.harness.asked import NOW, console, request, shown

CUT: dict[str, Any] = {"truncated": True, "action_digest": ""}


class Counter:
    """A desk in memory: hands out the whole request, and remembers what was extended."""

    def __init__(self, whole: HitlResponse | None = None) -> None:
        self._whole = whole
        self.fetched: list[RequestId] = []
        self.extended: list[tuple[RequestId, float]] = []

    def whole(self, request_id: RequestId) -> HitlResponse:
        """The request with nothing of it cut."""
        self.fetched.append(request_id)
        if self._whole is None:
            raise NotPending("The request is no longer open.", remedy="Look at the task.")
        return self._whole

    def extend(self, request_id: RequestId, seconds: float) -> None:
        """More time."""
        self.extended.append((request_id, seconds))


def decided(resume: ResumeRequest | None) -> Sequence[CallDecision]:
    """The decisions, each call's."""
    assert resume is not None
    assert resume.decisions is not None
    return resume.decisions


# -- approve, reject, respond ------------------------------------------------------------


@pytest.mark.parametrize("typed", ["a", "A", " approve ", "approve"])
def test_approve_binds_every_call_to_what_was_shown(typed: str) -> None:
    """Approving decides each call with the digest that was on the screen, all in one message."""
    here, _, asked = console(typed)
    resume = here.decide(request(shown(), shown(call_id="c2")))
    assert [(one.call_id, one.action, one.expected_digest) for one in decided(resume)] == [
        ("c1", "approve", sha256_hex(b"c1")),
        ("c2", "approve", sha256_hex(b"c2")),
    ]
    assert len(asked) == 1


def test_the_prompt_names_the_keys_and_fits_a_line() -> None:
    """Eighty columns hold the prompt, with room to type."""
    for one in (request(), request(shown(), shown(call_id="c2")), request(shown(**CUT))):
        here, _, asked = console("n")
        assert here.decide(one) is None
        assert len(asked[0]) < 79
    assert asked[0] == "Decide: [r]eject res[p]ond [w]hole [d]etails [l]eave [h]elp > "
    here, _, asked = console("n")
    here.decide(request())
    assert asked[0] == "Decide: [a]pprove [e]dit [r]eject res[p]ond [d]etails [l]eave [h]elp > "


@pytest.mark.parametrize(
    ("then", "on_reject"), [("c", "continue"), ("s", "cancel"), ("", "continue"), ("C", "continue")]
)
def test_reject_asks_for_a_reason_and_what_becomes_of_the_task(then: str, on_reject: str | None) -> None:
    """Rejecting asks why, and whether the task goes on; Enter alone tells the model, and it goes on."""
    here, _, asked = console("r", "not that file", then)
    resume = here.decide(request())
    assert [(one.action, one.reason, one.on_reject) for one in decided(resume)] == [
        ("reject", "not that file", on_reject)
    ]
    assert len(asked) == 3


def test_a_reject_can_be_taken_back_before_it_is_one() -> None:
    """What is no answer is asked again, and [n]o decides nothing."""
    here, said, asked = console("r", "", "x", "n", "l")
    assert here.decide(request()) is None
    assert said == ["Nothing was decided."]
    assert len(asked) == 5


def test_respond_tells_the_model_a_text_in_place_of_a_result() -> None:
    """The text goes along as the answer; an empty one decides nothing."""
    here, said, _ = console("p", "", "p", "the left chest")
    (one,) = decided(here.decide(request()))
    assert (one.action, one.answer, one.expected_digest) == ("respond", "the left chest", sha256_hex(b"c1"))
    assert said == ["Nothing was decided."]


@pytest.mark.parametrize("long", ["r", "p"])
def test_what_the_server_would_not_take_is_refused_here(long: str) -> None:
    """A reason or an answer over the limit decides nothing and says so."""
    here, said, _ = console(long, "x" * 20_001, "l")
    assert here.decide(request()) is None
    assert "longer than" in said[0]
    assert "nothing was decided" in said[0]


@pytest.mark.parametrize(
    "typo", ["", "y", "yes", "ok", "aa", "approve it", "1", "0", "mark_done", "t", "c", "\uff59", "\u0430", "\u00b2"]
)
def test_a_typo_decides_nothing(typo: str) -> None:
    """Anything but a key of this request, the empty line included, asks again and decides nothing."""
    here, said, asked = console(typo, "n")
    assert here.decide(request()) is None
    assert said == ["Type one of a, e, r, p, g, d, n, h; nothing was decided."]
    assert len(asked) == 2


def test_an_unknown_outcome_takes_other_verbs() -> None:
    """Of an unknown outcome a person says check, done, failed or retry; approve is a typo there."""
    unknown = request(reason="outcome_unknown", allowed_decisions=DECISIONS["outcome_unknown"])
    for typed, action in (("c", "check"), ("d", "mark_done"), ("f", "mark_failed"), ("t", "retry")):
        here, said, _ = console("a", "e", "g", "i", typed)
        assert [one.action for one in decided(here.decide(unknown))] == [action]
        assert sum("nothing was decided" in line for line in said) == 3
        assert any('"action_digest"' in line for line in said), "[i] shows the details"


def test_where_nobody_is_there_nothing_is_decided() -> None:
    """Without a terminal the console decides nothing: silence never approves."""
    assert Console(say=lambda _: None).decide(request()) is None


def test_help_names_every_key() -> None:
    """What can be typed, and only that."""
    here, said, _ = console("h", "n")
    here.decide(request())
    assert [line.split()[0] for line in said[:-1]] == ["a", "e", "r", "p", "g", "d", "n", "h"]


# -- several calls -----------------------------------------------------------------------


def test_one_call_of_several_is_decided_alone() -> None:
    """A number chooses the call that the next key acts on; the others stay as they are."""
    here, _, asked = console("2", "a")
    resume = here.decide(request(shown(), shown(call_id="c2"), shown(call_id="c3")))
    assert [(one.call_id, one.action) for one in decided(resume)] == [("c2", "approve")]
    assert asked[0].startswith("All 3: [a]pprove [r]eject ")
    assert "[1-3] one" in asked[0]
    assert asked[1].startswith("Call 2: ")


def test_zero_chooses_all_again_and_a_number_too_high_none() -> None:
    """A number of no call changes nothing."""
    here, said, asked = console("1", "4", "0", "a")
    assert len(decided(here.decide(request(shown(), shown(call_id="c2"))))) == 2
    assert said == [
        "  [1/2] cc_write on computer 3: /farm.lua (+1 -1)",
        "Type one of a, e, r, p, g, d, n, h; nothing was decided.",
    ]
    assert asked[2].startswith("Call 1: ")


@pytest.mark.parametrize("key", ["e", "p", "g"])
def test_what_is_said_of_one_call_needs_the_call(key: str) -> None:
    """Edit, respond and remember say something of one call: with several it has to be chosen."""
    here, said, _ = console(key, "n")
    assert here.decide(request(shown(), shown(call_id="c2"))) is None
    assert said == ["Choose one call first: 1 to 2."]


# -- what was cut ------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["a", "e", "g"])
def test_what_was_cut_is_not_approved_before_it_was_shown_whole(key: str) -> None:
    """Approve, edit and remember are refused until the whole was fetched and shown (V3)."""
    here, said, _ = console(key, "n", desk=Counter())
    assert here.decide(request(shown(**CUT))) is None
    assert said == ["Not all of it was shown: [w] shows the whole, then it can be approved."]


def test_the_whole_is_fetched_shown_and_then_approved_by_its_digest() -> None:
    """[w] shows every line, and the approval carries the digest that came with them (V3)."""
    content = "\n".join(f"line {number}" for number in range(3000))
    whole = request(shown(args={"path": "a", "content": content}, observed=Observed(state={})))
    desk = Counter(whole)
    here, said, _ = console("w", "a", desk=desk)
    (one,) = decided(here.decide(request(shown(args={"path": "a", "content": "line 0\n[…]"}, **CUT))))
    assert one.expected_digest == sha256_hex(b"c1")
    assert "  │ line 2999" in said
    assert desk.fetched == ["r" * 24]


def test_a_whole_that_cannot_be_had_leaves_it_cut() -> None:
    """Where the fetch fails its reason is said, and approving is still refused."""
    here, said, _ = console("w", "a", "n", desk=Counter())
    assert here.decide(request(shown(**CUT))) is None
    assert said[0] == "The request is no longer open. Look at the task."
    assert said[1].startswith("Not all of it was shown")


def test_what_was_cut_can_be_rejected_and_answered() -> None:
    """To say no nobody needs to see all of it; no digest is sent, so nothing is approved by it."""
    for typed in (("r", "", ""), ("p", "no need")):
        here, _, _ = console(*typed)
        (one,) = decided(here.decide(request(shown(**CUT))))
        assert one.expected_digest is None


def test_a_call_that_was_not_cut_is_approved_beside_one_that_was() -> None:
    """All together are refused, the whole one alone is not."""
    here, said, _ = console("a", "1", "a")
    (one,) = decided(here.decide(request(shown(), shown(call_id="c2", **CUT))))
    assert one.call_id == "c1"
    assert said[0] == "Not all of it was shown: [w] shows the whole, then it can be approved."


# -- details and time --------------------------------------------------------------------


def test_details_show_everything_in_full() -> None:
    """Full digests, hashes, rules and the policy's version, and all arguments, as JSON (P11, V1)."""
    here, said, _ = console("d", "n")
    here.decide(request())
    text = "\n".join(said)
    for wanted in (
        sha256_hex(b"c1"),
        sha256_hex(b"old\n"),
        '"boot-files"',
        '"policy_version": "v1"',
        '"content": "new\\n"',
    ):
        assert wanted in text


def test_an_hour_more() -> None:
    """[x] gives an hour beyond what is left, and says until when."""
    desk = Counter()
    here, said, _ = console("x", "x", "n", desk=desk)
    assert here.decide(request(expires_at=NOW + timedelta(minutes=10))) is None
    assert desk.extended == [("r" * 24, 4200.0), ("r" * 24, 7800.0)]
    assert said == ["It now expires in 70 min.", "It now expires in 2 h."]


def test_what_does_not_expire_has_no_key_for_more_time() -> None:
    """Where there is no deadline, x is a typo."""
    here, said, _ = console("x", "n", desk=Counter())
    here.decide(request())
    assert "nothing was decided" in said[0]


# -- remember ----------------------------------------------------------------------------


def test_a_grant_is_never_wider_than_the_call_by_itself() -> None:
    """The empty answers grant exactly this path with exactly this text, in this task (G2)."""
    here, said, _ = console("g", "2", "", "", "y")
    (one,) = decided(here.decide(request()))
    assert one.action == "approve"
    assert one.remember is not None
    assert one.remember.model_dump(exclude_defaults=True) == {"scope": "task"}
    text = "\n".join(said)
    for wanted in ("  path: farm.lua", "  content: exactly as above", "  in: task t-1, until it ends"):
        assert wanted in text


def test_a_grant_shows_what_was_widened() -> None:
    """Globs, any text and hours stand in the pattern that is agreed to (G1, G2)."""
    here, said, _ = console("g", "3", "farm/*.lua, lib/**", "y", "2", "y")
    (one,) = decided(here.decide(request()))
    assert one.remember is not None
    assert one.remember.model_dump() == {
        "scope": "session",
        "paths": ("farm/*.lua", "lib/**"),
        "any_content": True,
        "expires_s": 7200.0,
        "max_uses": None,
    }
    text = "\n".join(said)
    for wanted in ("paths like: farm/*.lua", "paths like: lib/**", "content: any text", "session s-1, for 2 h"):
        assert wanted in text


def test_a_grant_of_a_command_shows_the_whole_command() -> None:
    """A command line is never left open (G3)."""
    here, said, _ = console("g", "2", "y")
    line = shown("cc_shell", {"command": "farm 1\x1b 2"}, Observed(state={}))
    (one,) = decided(here.decide(request(line)))
    assert one.remember is not None
    assert "  command: farm 1\\u{1b} 2" in said
    assert "  only as long as the program's file stays the same" in said


@pytest.mark.parametrize(
    "typed", [("",), ("4",), ("2", "", "", "n"), ("2", "", "", ""), ("3", "", "", "soon"), ("3", "", "", "999")]
)
def test_what_is_not_agreed_to_is_not_granted(typed: Sequence[str]) -> None:
    """No, silence and what cannot be granted decide nothing."""
    here, said, _ = console("g", *typed, "n")
    assert here.decide(request()) is None
    assert said[-1].endswith("Nothing was decided.")


def test_what_is_critical_is_never_remembered() -> None:
    """At critical risk there is no grant to ask for (G5)."""
    here, said, _ = console("g", "n")
    assert here.decide(request(shown(call_id=CallId("c1"), risk=RiskLevel.CRITICAL))) is None
    assert said == ["A critical call is decided each time: approve it this once."]
