"""What the explorer found, each as the shortest way to it.

That a former holder gives back no claims is contract s38 of the store: it did, and a hello then
acknowledged an outcome that no journal had yet, so that a run that was done settled as void.
"""

import random
from collections.abc import Awaitable
from typing import Any

import pytest

from orchestrator.core.wire.wire import ComputerId, RunId
from tests.explorer import explorer
from tests.explorer.ending import MAX_STEPS, Ending
from tests.explorer.ledger import Ledger
from tests.explorer.net import Letter, Net
from tests.explorer.setting import Setting

THREE = ComputerId("3")


def _running(seed: int = 0) -> Setting:
    setting = Setting(random.Random(seed), Ledger())
    setting.start()
    return setting


def _let_come(ending: Ending) -> None:
    """Dials, greetings, frames and answers: each takes a round or two."""
    for _ in range(8):
        ending.round(decide=False)


def _is_look(setting: Setting, letter: Letter) -> bool:
    return letter.payload.get("op") == "call" and letter.payload["run_id"] not in setting.ledger.runs


def _next_look(setting: Setting, net: Net) -> Letter:
    """A look at a computer of another node, as it is asked there; all before it arrives."""
    for _ in range(1000):
        for node in setting.fronts:
            setting.step(node, 1)
        for letter in list(net.letters):
            if _is_look(setting, letter):
                return letter
            net.bring(letter)
        for wire in list(setting.wires()):
            while wire.to_client:
                wire.computer.deliver(wire)
            while wire.to_server:
                setting.to_server(wire)
        for computer in setting.computers:
            while computer.waiting:
                computer.step()
    raise AssertionError("nobody looks at another node's computer")


def _bury(setting: Setting) -> None:
    for node in setting.nodes:
        node.bury()


@pytest.mark.parametrize("seed", [3, 5, 6])
def test_tasks_that_wait_for_one_computer_leave_each_other_alone(seed: int) -> None:
    """Each claimed it, found it away and gave it back, which woke the other: for ever, at full speed."""
    setting = _running(seed)
    for computer in setting.computers:
        computer.power_off()
    setting.submit()
    setting.step(setting.present(), MAX_STEPS)
    assert setting.present().loop.idle()
    assert not setting.all_over()
    _bury(setting)


def test_a_call_and_the_settle_of_its_next_holder_may_both_wait_for_one_run() -> None:
    """They shared one future: the end of the call took the outcome away from the settle."""
    setting = _running()
    ending = Ending(setting)
    _let_come(ending)
    hub, heard = setting.present().hub, list[Any]()

    async def hear(waiting: Awaitable[Any]) -> None:
        heard.append(await waiting)

    run_id = RunId("c1.1")
    called = hub.call(THREE, run_id=run_id, task_id="t", number=50, method="fs_list", params={"path": ""})
    setting.present().spawn(hear(called))
    setting.present().spawn(hear(hub.settle(THREE, run_ids=[run_id], number=51)))
    _let_come(ending)
    result, settled = heard
    assert settled[run_id].call.state == "finished"
    assert settled[run_id].result == result
    _bury(setting)


def test_a_person_who_replaces_a_directory_took_away_what_was_in_it() -> None:
    """Seed 383325449922: an undo was about to remove ``new`` when a person put a file there.

    The judge was told of that one place and missed the file that had been in it; the disk was right.
    """
    setting = _running()
    three = setting.computer(THREE)
    setting.edit(THREE, "new/one", b"one\n")
    setting.edit(THREE, "new", b"a file\n")
    assert setting.ledger.holds[THREE, "new/one"] is None
    setting.edit(THREE, "new/two", b"two\n")
    setting.edit(THREE, "new", None)
    setting.edit(THREE, "new/one", b"one again\n")
    Ending(setting).check()
    assert three.get("new/one") == b"one again\n"
    assert (THREE, "new") not in setting.ledger.holds
    _bury(setting)


@pytest.mark.parametrize(("patience_s", "defects"), [(58, 0), (70, 2)])
def test_an_append_may_be_given_up_once_two_leases_are_over(
    patience_s: float, defects: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 235187123793: moves kept the store away for 62 s from an append; the task stopped for now, as it should.

    The judge took what the log says of it for a defect, which it is only where the store was away for less.
    """
    monkeypatch.setattr(explorer, "PATIENCE_S", patience_s)
    with explorer.errors_logged() as broken:
        setting = _running()
        node = setting.present()
        setting.submit()
        node.store.troubles.extend(("away", "away", "lost", "lost", "away", "away"))
        for seconds in (31, 31, 0):
            setting.step(node, MAX_STEPS)
            setting.pass_time(seconds)
        assert not node.store.troubles
        assert len(broken) == defects
        Ending(setting).quiet(stalled=False)
        assert setting.all_over()
        _bury(setting)


def test_a_schedule_ends_no_sooner_than_what_waits_for_an_answer_that_was_lost() -> None:
    """Seeds 513314418439 and 646676581: a task was canceled while a look of its was lost on the way to another node.

    Until its node gave the look up, after three minutes, the task had its claims, which the judge took for a leak.
    """
    setting = Setting(random.Random(0), Ledger(), several=True)
    setting.start_all()
    ending, net = Ending(setting), setting.net
    assert net is not None
    _let_come(ending)
    setting.submit()
    look = _next_look(setting, net)
    net.lose(look)
    for task_id in setting.ledger.tasks:
        setting.cancel(task_id)
    ending.quiet(stalled=False)
    ending.verdict()
    _bury(setting)


@pytest.mark.parametrize("kind", ["request", "answer"])
def test_a_program_whose_request_or_answer_is_lost_between_nodes_is_not_waited_for_a_day(kind: str) -> None:
    """Seed 10186: the request to run it was lost, and its node was asked for nothing else."""
    for seed in range(20):
        setting = Setting(random.Random(seed), Ledger(), several=True)
        setting.start_all()
        ending, net = Ending(setting), setting.net
        assert net is not None
        _let_come(ending)
        setting.submit()
        letter = ending.onward(lambda one: one.kind == kind and one.ask.get("method") == "run_program")
        if letter is None:
            _bury(setting)
            continue
        net.lose(letter)
        ending.quiet(stalled=False)
        ending.verdict()
        assert setting.all_over()
        _bury(setting)
        return
    raise AssertionError("no program runs at another node")


def test_an_answer_that_is_held_when_the_end_has_begun_comes_all_the_same() -> None:
    """Seed 474932314787: an append had met its trouble, and was not done yet, as the judge let all held answers come.

    That one was held for ever, and the judge took its task for stuck.
    """
    setting = _running()
    store = setting.present().store
    setting.submit()
    store.troubles.append("late")
    while store.troubles:
        assert not store.held
        setting.step(setting.present(), 1)
    assert not store.held
    Ending(setting).quiet(stalled=False)
    assert setting.all_over()
    _bury(setting)
