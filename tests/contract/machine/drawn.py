"""What the machine draws from: scripts of a model, decisions of people, and what may come in between."""

from typing import Any

from hypothesis import strategies as st

from orchestrator.core.approval.grants import GrantSpec

PATHS = st.sampled_from(["a.lua", "b.lua", "c.lua"])
COMPUTERS = st.sampled_from(["3", "3", "4"])
TEXTS = st.sampled_from(["-- 1\n", "-- 2\n"])


def _call(tool: str, **args: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"tool": st.just(tool), "args": st.fixed_dictionaries(dict(args))})


WRITE = _call("cc_write", path=PATHS, content=TEXTS, computer=COMPUTERS)
RUN = _call("cc_run_program", path=st.just("run.lua"), args=st.sampled_from([[], ["x"]]), computer=COMPUTERS)
CALLS = st.one_of(
    WRITE,
    WRITE,
    _call("cc_edit", path=PATHS, old=st.just("old"), new=st.just("new"), computer=COMPUTERS),
    _call("cc_delete", path=PATHS, computer=COMPUTERS),
    _call("cc_read", path=PATHS, computer=COMPUTERS),
    _call("cc_list", path=st.just(""), computer=COMPUTERS),
    RUN,
    _call("cc_shell", command=st.sampled_from(["run", "run.lua x"]), computer=COMPUTERS),
    _call("ask_user", question=st.just("Which?")),
)
STEPS = st.lists(CALLS, min_size=1, max_size=4)
SCRIPTS = st.one_of(
    st.lists(STEPS, min_size=1, max_size=3),
    # The same once more: what was rejected, what a grant covers.
    st.builds(lambda steps: [*steps, *steps], st.lists(STEPS, min_size=1, max_size=2)),
    st.lists(st.lists(WRITE, min_size=1, max_size=3), min_size=2, max_size=4),
)

VERBS = st.sampled_from(
    [
        *("approve", "approve", "reject", "reject on", "partly", "mixed", "edit", "edit elsewhere", "edit over"),
        *("respond", "remember", "remember", "wrong digest"),
    ]
)
EDITS = st.sampled_from(["edit", "edit elsewhere", "edit over", "edit over"])
REFUSALS = st.sampled_from(["reject on", "respond", "mixed", "reject on"])
UNKNOWN_VERBS = st.sampled_from(["check", "mark_done", "mark_failed", "retry"])
TWO_UNKNOWN_VERBS = st.permutations(["check", "mark_done", "mark_failed", "retry"]).map(lambda verbs: verbs[:2])
_LASTS = {"expires_s": st.sampled_from([None, 50.0, 1_000.0]), "max_uses": st.sampled_from([None, 1, 2])}
_WIDE = {"paths": st.sampled_from([None, ("*.lua",)]), "any_content": st.booleans()}
GRANTS = st.one_of(
    st.builds(GrantSpec, scope=st.just("call"), **_LASTS),
    st.builds(GrantSpec, scope=st.sampled_from(["task", "session"]), **_WIDE, **_LASTS),
    st.builds(GrantSpec, scope=st.just("session"), paths=st.just(("*.lua",)), any_content=st.just(True), **_LASTS),
)

AROUND = st.sampled_from(["extend", "extend", "withdraw", "withdraw", "renew", "look", "look", "cancel"])
"""What else may be said to a request, or to a task that has one."""

KINDS = ("calls_proposed", "model_replied", "review_requested", "tool_started", "tool_finished", "tool_settled")
_RUN = ("started", "finished")
_LIKELY = ("frame", "outcome", *(f"{side} tool_{what}" for side in ("before", "after") for what in _RUN))
PLACES = st.sampled_from(
    [
        *_LIKELY * 2,
        *(f"{side} {kind}" for side in ("before", "after") for kind in (*KINDS, "request_ended", "review_noted")),
    ]
)
MEDDLERS = st.sampled_from(
    ["kill", "kill", "drop", "cancel", "take over", "reload", "revoke", "approve", "late", "very late", "player"]
)
SECONDS = st.sampled_from([1.0, 15.0, 31.0, 61.0, 901.0, 3_100.0, 3_601.0])
