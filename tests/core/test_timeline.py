"""The times of a task: its segments follow one another, and say what the task did."""

from datetime import timedelta

from orchestrator.core.task import facts
from orchestrator.core.task import timeline as timelines
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.timeline import Timeline
from tests.core.journal import NOW, TASK, Journal, call, decision, verdict


def read(journal: Journal) -> Timeline:
    """What the journal's items tell."""
    told = Timeline(AgentTask(TASK))
    told.take(journal.items)
    return told


def spans(told: Timeline) -> list[tuple[str, int, int | None]]:
    """Each segment with the seconds of its begin and end."""
    seconds = timedelta(seconds=1)
    return [
        (one.doing, (one.since - NOW) // seconds, None if one.until is None else (one.until - NOW) // seconds)
        for one in told.segments
    ]


def test_a_task_thinks_waits_for_a_person_and_runs_its_call() -> None:
    """Each item is a second after the one before; an item after the end changes nothing."""
    story = Journal()
    assert read(story).doing is None
    story.submitted()
    assert (read(story).doing, read(story).tool) == ("queued", "")
    story.asked()
    usage = facts.Usage(input_tokens=900, output_tokens=30)
    story.add(facts.ModelReplied(raw=facts.BlobRef(sha256="b" * 64, size=2), done_reason="stop", usage=usage))
    story.add(
        facts.CallsProposed(
            explanation="I write it.",
            calls=(call("c1", path="farm"),),
            evaluations=(verdict("ask"),),
        )
    )
    story.reviewed("c1")
    assert read(story).doing == "waiting"
    story.decided(decision("c1"))
    story.started("c1")
    running = read(story)
    assert (running.doing, running.tool) == ("running", "cc_write")
    story.finished("c1")
    story.ended("Completed", "final")
    story.add(facts.TaskPinned())
    told = read(story)
    assert spans(told) == [
        ("queued", 1, 2),
        ("thinking", 2, 4),
        ("queued", 4, 5),
        ("waiting", 5, 6),
        ("queued", 6, 7),
        ("running", 7, 8),
        ("thinking", 8, 9),
    ]
    assert (told.doing, told.tool, told.ended_at) == (None, "", NOW + timedelta(seconds=9))
    assert [(one.seconds, one.tokens) for one in told.replies] == [(1.0, 930)]
    assert [one.seconds for one in told.decisions] == [1.0]


def test_a_frozen_task_does_nothing_until_it_goes_on() -> None:
    """Its model is not asked meanwhile, and its time stands still, whoever pins it; the next item ends that."""
    story = Journal()
    story.submitted(max_wall_s=60)
    story.asked()
    story.add(facts.WorkFrozen(by="rita", of="*"))
    story.add(facts.TaskPinned())
    assert (read(story).doing, story.task.frozen, story.task.excused) == ("queued", True, 1)
    assert story.task.active_until(NOW + timedelta(hours=1)) == story.task.active_s == 1
    story.asked(2)
    assert (read(story).doing, story.task.frozen, story.task.active_s) == ("thinking", False, 1)


def test_what_is_read_later_continues_the_last_segment() -> None:
    """A task is read on from where it was; a question waits for a person as a request does."""
    story = Journal()
    story.proposed([call("c1", "ask_user", computer=None)], "allow")
    told = read(story)
    known = len(story.items)
    story.question("c1")
    told.take(story.items[known:])
    assert told.doing == "waiting"
    assert spans(told) == spans(read(story))


def test_of_very_many_segments_the_last_are_kept() -> None:
    """So a task that goes on for long costs no more."""
    story = Journal()
    story.submitted()
    for _ in range(timelines.MOST_SEGMENTS):
        story.asked()
        story.awaited()
    told = read(story)
    assert timelines.MOST_SEGMENTS // 2 < len(told.segments) <= timelines.MOST_SEGMENTS
    assert told.doing == "queued"
