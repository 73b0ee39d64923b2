"""The tokens of a task: what is left for a reply, and which request is not sent."""

import pytest

from orchestrator.core.task import facts
from orchestrator.core.task.fold import uncounted
from orchestrator.core.task.limits import LEAST_REPLY, Tokens
from tests.core.journal import Journal


@pytest.mark.parametrize(
    ("limit", "used", "prompt", "reply"),
    [(0, 10**9, 10**9, None), (1000, 0, 400, 600), (1000, 500, 400, 100), (1000, 584, 400, 16), (1000, 900, 400, 1)],
)
def test_a_reply_may_have_what_is_left(limit: int, used: int, prompt: int, reply: int | None) -> None:
    """The prompt counts before it is sent; without a limit nothing is bounded."""
    assert Tokens(limit, used, 0, prompt, 0).reply == reply


def test_a_request_that_could_pass_the_limit_is_not_sent() -> None:
    """At the least that a reply needs it is, one token later it is not; the sentence says which counts are exact."""
    assert Tokens(0, 10**9, 0, 10**9, 0).passed() is None
    assert Tokens(1000, 584, 0, 400, 0).passed() is None
    assert 584 + 400 + LEAST_REPLY == 1000
    assert Tokens(1000, 585, 0, 400, 0).passed() == (
        "The limit of 1000 tokens leaves no room for another request, so none was sent: 585 were used, and the next "
        "prompt has up to 400 (estimated)."
    )
    assert Tokens(1000, 600, 90, 400, 310).passed() == (
        "The limit of 1000 tokens leaves no room for another request, so none was sent: 600 were used (90 of them "
        "estimated), and the next prompt has up to 400 (310 of them counted by the model's server, the rest estimated)."
    )


def test_what_a_server_does_not_count_is_estimated() -> None:
    """Only under a limit, and only the side that was not counted; a byte more rounds up."""
    assert uncounted(0, 900, counted_in=0, counted_out=0) == 0
    assert uncounted(400, 90, counted_in=380, counted_out=30) == 0
    assert uncounted(400, 91, counted_in=380, counted_out=0) == 46
    assert uncounted(400, 91, counted_in=0, counted_out=30) == 400
    assert uncounted(400, 0, counted_in=0, counted_out=0) == 400


def test_a_task_keeps_what_was_counted_and_what_was_estimated_apart() -> None:
    """The estimate is recorded with the request, so every node makes the same of it."""
    story = Journal()
    story.submitted(max_tokens=5000)
    asked = facts.ModelAsked(attempt=1, prompt_version="p", policy_version="v", view_digest="a" * 64, prompt_tokens=700)
    story.add(asked, facts.ModelReplied(raw=facts.BlobRef(sha256="b" * 64, size=60), done_reason="stop"))
    assert (story.task.tokens, story.task.uncounted) == (0, 731)
    story.add(facts.ReplyRefused(reason="no"), asked)
    usage = facts.Usage(input_tokens=650, output_tokens=20)
    story.add(facts.ModelReplied(raw=facts.BlobRef(sha256="c" * 64, size=60), done_reason="stop", usage=usage))
    assert (story.task.tokens, story.task.uncounted) == (670, 731)
