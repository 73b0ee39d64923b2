"""The list of all figures: what Prometheus is told, under which names and labels.

Names, labels and what they mean are for ever, as dashboards and alarms are made of them; new ones may come. A
label's values are a closed list of the code or what an operator writes into the policy, never the id of a task, a
computer's name or anybody's text: how many series there are does not grow with use.

Of several nodes each tells its own counters, which add up. What a gauge reads from the store is the same at each, so
its text says whose it is.
"""

from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "cc_orchestrator_"
_CALL_BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""From one tick of the game to the longest run that is usual."""
_PEOPLE_BUCKETS_S: Final = (1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)
_MODEL_BUCKETS_S: Final = (0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
_LAG_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
"""From what is usual to what a person at a console feels."""


@dataclass(frozen=True)
class Figure:
    """One figure that is told. A counter's name ends with ``_total`` when it is told."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


FIGURES: Final = (
    Figure("computers_online", "gauge", "Computers that are connected to this node now."),
    Figure("computers_known", "gauge", "Computers that have a token, of all nodes."),
    Figure(
        "tasks",
        "gauge",
        "Tasks of all nodes that have not ended, by status; Queued ones wait for a worker.",
        ("status",),
    ),
    Figure(
        "queue_age_seconds",
        "gauge",
        "Seconds that the task longest due has waited for a worker of any node; 0: none waits.",
    ),
    Figure("requests_open", "gauge", "Requests that wait for a person's decision, of all nodes."),
    Figure("oldest_request_seconds", "gauge", "Seconds that the oldest of them has waited; 0: none waits."),
    Figure("questions_open", "gauge", "Questions of models that wait for a person's answer, of all nodes."),
    Figure("items_appended", "counter", "Items that this node appended to journals, by kind.", ("kind",)),
    Figure("tasks_ended", "counter", "Tasks whose end this node recorded, by status.", ("status",)),
    Figure("verdicts", "counter", "The policy's first verdicts on calls, by tool and effect.", ("tool", "effect")),
    Figure("requests_raised", "counter", "Requests that were put to people, by reason.", ("reason",)),
    Figure("requests_ended", "counter", "Requests that ended without a decision: expired, stale and so on.", ("end",)),
    Figure("decisions", "counter", "Decisions of people on single calls, by action.", ("action",)),
    Figure(
        "judged_calls",
        "counter",
        "The same by tool and by each rule that asked for a person; approvals of all are the approval rate.",
        ("tool", "rule", "action"),
    ),
    Figure("decision_seconds", "histogram", "Seconds from a request to its decision.", buckets=_PEOPLE_BUCKETS_S),
    Figure("calls", "counter", "Calls of tools that ended, by tool and outcome.", ("tool", "outcome")),
    Figure("call_seconds", "histogram", "Seconds from a call's start to its outcome.", buckets=_CALL_BUCKETS_S),
    Figure("model_replies", "counter", "Replies of the model, by how they ended.", ("done_reason",)),
    Figure("model_tokens", "counter", "Tokens, as the model's server counted them: in or out.", ("direction",)),
    Figure("model_seconds", "histogram", "Seconds from a request to the model's reply.", buckets=_MODEL_BUCKETS_S),
    Figure("wire_bytes", "counter", "Bytes of frames from computers (in) and to them (out).", ("direction",)),
    Figure("wire_frames", "counter", "Frames from computers (in) and to them (out).", ("direction",)),
    Figure(
        "store_errors",
        "counter",
        "Operations of the store that failed, by code; conflicts and lost leases are answers, and not among them.",
        ("code",),
    ),
    Figure("log_lines", "counter", "Lines of the log, by level.", ("level",)),
    Figure(
        "loop_lag_seconds",
        "histogram",
        "Seconds that the event loop came late to a timer: whoever waits for this process waits so much longer.",
        buckets=_LAG_BUCKETS_S,
    ),
)
"""All of them; docs/metrics.md is drawn from this."""
