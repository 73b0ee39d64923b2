"""Who approved exactly these bytes, when, under which policy, and what happened: from the log alone (promise A5)."""

from datetime import timedelta

from orchestrator.core.audit.story import Match, Story, who_approved
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, Observed
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.wire.wire import sha256_hex
from tests.core.audited import ALICE, BOB, BYTES, CONTENT, FOUND, Trail, bound, edits, made, says
from tests.core.journal import NOW, REQUEST

C1 = made("c1")
OLD = sha256_hex(b"old\n")
NEW = sha256_hex(b"new\n")


def only(found: list[Story]) -> Story:
    """The one story."""
    (story,) = found
    return story


def asked(*calls: facts.ToolCall, found: Observed = FOUND) -> Trail:
    """A trail up to the question to a person."""
    return Trail(*calls).requested(*calls, found=found)


def test_a5_the_log_alone_says_who_approved_exactly_these_bytes() -> None:
    """Who, when, how proved, under which policy, what was asked, and what the run left behind."""
    trail = asked(C1, made("c2", path="barn", content="other")).approved(
        C1, by=BOB, policy_version="v7", valid_until=NOW + timedelta(seconds=900)
    )
    trail.started(C1).finished(C1, after={"farm": BYTES}).ended()
    story = only(who_approved(trail.items, sha256=BYTES))
    assert (story.stream, story.version, story.call_id, story.tool) == ("t1", 2, "c1", "cc_write")
    assert (story.requester, story.computer, story.requests) == ("alice", "3", (REQUEST,))
    assert story.matches == (Match(path="farm", role="written"), Match(path="farm", role="left"))
    (approval,) = story.approvals
    assert (approval.version, approval.at, approval.by, approval.how) == (4, trail.items[3].at, BOB, "approve")
    assert (approval.policy_version, approval.action_digest) == ("v7", bound(C1))
    assert not approval.self_approved
    (run,) = story.runs
    assert (run.run_id, run.at, run.outcome, run.code) == ("c1.1", trail.items[4].at, "done", "")
    assert (run.action_digest, run.before, run.after) == (bound(C1), FOUND.state, {"farm": BYTES})
    assert run.ended_at == trail.items[5].at


def test_a5_one_byte_more_is_approved_by_nobody() -> None:
    """The hash is of the bytes and of nothing else; its letters may be large."""
    items = asked(C1).approved(C1).items
    assert who_approved(items, sha256=sha256_hex(CONTENT.encode() + b" ")) == []
    assert only(who_approved(items, sha256=BYTES.upper())).call_id == "c1"


def test_a5_text_is_looked_for_in_the_encoding_that_it_is_written_in() -> None:
    """A latin-1 file stays one; where nobody looked at the file it may be either."""
    accented = made("c1", path="farm", content="caf\u00e9")
    latin, utf8 = sha256_hex("caf\u00e9".encode("latin-1")), sha256_hex("caf\u00e9".encode())
    as_latin = asked(accented, found=Observed(state={"farm": OLD}, encoding="latin-1")).items
    assert who_approved(as_latin, sha256=latin)
    assert not who_approved(as_latin, sha256=utf8)
    unseen = Trail(accented, effect="allow").items
    assert who_approved(unseen, sha256=latin)
    assert who_approved(unseen, sha256=utf8)
    wide = Trail(made("c1", path="farm", content="\u2713"), effect="allow").items
    assert who_approved(wide, sha256=sha256_hex("\u2713".encode()))
    assert not who_approved(wide, sha256=latin)


def test_a5_what_a_patch_made_of_a_file_is_found_once_it_ran() -> None:
    """By the hashes of the result, also where the computer told it later; and by what was there before."""
    patch = made("c1", "cc_edit", path="farm", old="old", new="new")
    seen = Observed(state={"farm": OLD})
    trail = asked(patch, found=seen).decided(says(patch, "approve")).started(patch, before={"farm": OLD})
    assert who_approved(trail.items, sha256=NEW) == []
    story = only(who_approved(trail.settled(patch, "finished", ok=True, after={"farm": NEW}).items, sha256=NEW))
    assert story.matches == (Match(path="farm", role="left"),)
    assert (story.runs[0].outcome, story.runs[0].after) == ("done", {"farm": NEW})
    assert only(who_approved(trail.items, sha256=OLD)).matches == (Match(path="farm", role="before"),)


def test_a5_a_program_is_found_by_the_hash_that_it_ran_with() -> None:
    """What was shown and what was found at the start are one match where they are the same."""
    run = made("c1", "cc_run_program", path="farm.lua", args=[])
    seen = Observed(state={"farm.lua": NEW}, program="farm.lua")
    trail = asked(run, found=seen).approved(run).started(run, before={"farm.lua": NEW})
    assert only(who_approved(trail.items, sha256=NEW)).matches == (Match(path="farm.lua", role="program"),)


def test_a5_of_an_edited_call_both_texts_are_known_and_only_one_is_approved() -> None:
    """The model's text was proposed, the person's is written."""
    edit, after = edits(C1, path="farm", content="new\n")
    trail = asked(C1).decided(edit, by=ALICE)
    story = only(who_approved(trail.items, sha256=NEW))
    assert story.matches == (Match(path="farm", role="written"),)
    assert (story.args, story.original_args) == (after.args, C1.args)
    assert (story.approvals[0].how, story.approvals[0].self_approved) == ("edit", True)
    assert story.approvals[0].action_digest == bound(after)
    assert only(who_approved(trail.items, sha256=BYTES)).matches == (Match(path="farm", role="proposed"),)
    assert only(who_approved(trail.items, call_digest=C1.call_digest)).call_digest == after.call_digest


def test_a5_an_edit_of_an_early_release_keeps_the_verdict_that_was_shown() -> None:
    """And a second edit keeps the model's own arguments as the original."""
    edit, _ = edits(C1, path="farm", content="new\n")
    unjudged = edit.model_copy(update={"evaluation": None, "args": None})
    again, _ = edits(C1, path="farm", content="newer\n")
    trail = asked(C1).decided(unjudged).requested(C1, of="q2").decided(again, of="q2")
    story = only(who_approved(trail.items))
    assert (story.original_args, story.args["content"]) == (C1.args, "newer\n")
    assert story.requests == (REQUEST, "q2")


def test_a5_a_story_is_found_by_its_call_by_its_action_and_by_its_request() -> None:
    """Any of the digests that it goes by; all that is given has to fit."""
    c2 = made("c2", path="barn", content="y")
    trail = asked(C1).requested(c2, of="q2")
    trail.items[1:2] = Trail(C1, c2).items[1:2]
    items = trail.approved(C1).started(C1, digest="e" * 64).items
    assert len(who_approved(items)) == 2
    for digest in (C1.call_digest, bound(C1), "e" * 64):
        assert only(who_approved(items, call_digest=digest)).call_id == "c1"
    assert only(who_approved(items, request_id="q2")).call_id == "c2"
    assert who_approved(items, request_id="q2", call_digest=C1.call_digest) == []
    assert who_approved(items, request_id="q9") == []


def test_a5_what_let_a_call_run_without_a_person_is_told_as_that() -> None:
    """The policy itself, a grant, a release by a new policy: each with its version."""
    allowed = only(who_approved(Trail(C1, effect="allow").items))
    assert [(one.how, one.by, one.policy_version) for one in allowed.approvals] == [("policy", SYSTEM, "v1")]
    shown = asked(C1).shown(C1)
    used = facts.ReviewNoted(what="grant_used", calls=(shown,), grant_id=GrantId("g-1"))
    granted = only(who_approved(Trail(C1).add(used).items))
    assert [(one.how, one.grant_id) for one in granted.approvals] == [("grant_used", "g-1")]
    free = facts.ReviewNoted(what="released", request_id=REQUEST, calls=(shown,))
    released = only(who_approved(asked(C1).add(free).items))
    assert [(one.how, one.request_id, one.policy_version) for one in released.approvals] == [
        ("released", REQUEST, "v1")
    ]


def test_a5_what_kept_a_call_from_running_is_told_too() -> None:
    """Denied, expired, rejected with a reason: by whom and when."""
    denied = only(who_approved(Trail(C1, effect="deny").items))
    assert [(one.how, one.reason, one.by) for one in denied.refusals] == [("deny", "a rule says so", SYSTEM)]
    expired = asked(C1).ended_request("expired", C1).requested(C1, of="q2")
    story = only(who_approved(expired.decided(says(C1, "reject", reason="not now"), of="q2").items))
    assert [(one.how, one.reason) for one in story.refusals] == [("expired", "so it is."), ("reject", "not now")]
    assert story.refusals[1].by == BOB
    assert story.approvals == ()


def test_a5_a_retry_is_a_story_of_its_own() -> None:
    """It has another id and no approval yet; a failed run and an unknown one are told as that."""
    retry = says(C1, "retry", retry_as=CallId("c7"))
    trail = asked(C1).approved(C1).started(C1).settled(C1, "unknown")
    first, second = who_approved(trail.requested(C1, of="q2").decided(retry, of="q2").items)
    assert (first.call_id, first.runs[0].outcome) == ("c1", "unknown")
    assert (second.call_id, second.version, second.approvals) == ("c7", 8, ())
    failed = asked(C1).approved(C1).started(C1).finished(C1, ok=False, code="stale")
    assert [(one.outcome, one.code) for one in only(who_approved(failed.items)).runs] == [("failed", "stale")]


def test_a5_the_first_outcome_counts_and_what_nobody_proposed_is_no_story() -> None:
    """As in the task itself; a result without a start is told by the check."""
    trail = asked(C1).approved(C1).started(C1).finished(C1).finished(C1, ok=False).finished(C1, 2)
    assert [one.outcome for one in only(who_approved(trail.items)).runs] == ["done"]
    assert only(who_approved(asked(C1).approved(C1).started(C1).items)).runs[0].outcome == "open"
    ghost = made("c8")
    stray = Trail(C1).requested(ghost).approved(ghost).started(ghost).finished(ghost).ended_request("stale", ghost)
    stray.add(facts.ReviewNoted(what="released", calls=(stray.shown(ghost),)))
    assert only(who_approved(stray.ended().items)).call_id == "c1"
