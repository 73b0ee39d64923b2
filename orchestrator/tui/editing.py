"""A call's arguments changed by the person: in their own editor, the screen set aside, or in a field right here."""

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.app import SuspendNotSupported

from orchestrator.console.editing import EditorFailed, args_as_json, edited_text, ending_of, parsed, text_argument
from orchestrator.console.lines import Line, changes
from orchestrator.core.approval import HitlResponse, RequestedCallView
from orchestrator.core.visible import visible
from orchestrator.tui.dialogs import Choose, Write
from orchestrator.tui.pane import Pane

if TYPE_CHECKING:
    from orchestrator.tui.desk import Desk


class Editing:
    """Edits calls for one pane, and keeps what was not taken: the next edit begins with it."""

    def __init__(self, pane: Pane) -> None:
        self._pane = pane
        self._kept: dict[tuple[str, str], dict[str, Any]] = {}

    @property
    def _desk(self) -> "Desk":
        return self._pane.desk

    async def edited(self, request: HitlResponse, call: RequestedCallView, *, here: bool) -> dict[str, Any] | None:
        """All arguments as the person wants them; None: they changed nothing, or dropped it."""
        key = (request.request_id, call.call_id)
        args = dict(self._kept.get(key, call.args))
        while True:
            try:
                args = await self._once(request, call.tool, args, here)
            except EditorFailed as error:
                self._desk.tell(f"{error} Nothing was decided.")
                return None
            differs = changes(call.args, args)
            if not differs:
                self._desk.tell("Unchanged: nothing was decided.")
                return None
            self._kept[key] = args
            if request.request_id not in self._desk.reviews.requests:
                self._desk.tell("It was closed meanwhile: nothing was sent.")
                return None
            said = await self._pane.app.push_screen_wait(
                Choose(
                    "Approve it like this?",
                    [Line("  what you changed:"), *differs],
                    [("y", "yes"), ("e", "edit again"), ("n", "no, drop it")],
                    about=request.request_id,
                )
            )
            if said != "e":
                if said == "n":
                    self._kept.pop(key, None)
                if said != "y":
                    self._desk.tell("Nothing was decided.")
                return args if said == "y" else None

    def forget(self, request: HitlResponse) -> None:
        """It was taken."""
        for key in [one for one in self._kept if one[0] == request.request_id]:
            del self._kept[key]

    async def _once(self, request: HitlResponse, tool: str, args: dict[str, Any], here: bool) -> dict[str, Any]:
        """The arguments after one round. Raises EditorFailed."""
        name = text_argument(tool, args)
        text, ending = (args[name], ending_of(name, args)) if name is not None else (args_as_json(args), ".json")
        new = await (self._here(request, name, text) if here else self._in_editor(text, ending))
        return parsed(new) if name is None else {**args, name: new}

    async def _here(self, request: HitlResponse, name: str | None, text: str) -> str:
        if visible(text) != text or "\t" in text:
            raise EditorFailed("It has characters that a field would not show as they are: e opens your editor.")
        what = name or "the arguments, as JSON"
        found = await self._pane.app.push_screen_wait(Write(f"Edit {what}", text=text, about=request.request_id))
        return text if found is None else found

    async def _in_editor(self, text: str, ending: str) -> str:
        app = self._pane.app
        try:
            # What is heard meanwhile is drawn when the editor has ended.
            with app.suspend(), app.batch_update():
                return await _in_thread(lambda: edited_text(text, ending))
        except SuspendNotSupported:
            raise EditorFailed("This terminal cannot be lent to an editor: i edits here.") from None


async def _in_thread(work: Callable[[], str]) -> str:
    """What a thread of its own gives, which nobody waits for when the program ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()

    def settle(result: str | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result or "")

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            loop.call_soon_threadsafe(settle, None, error)
        else:
            loop.call_soon_threadsafe(settle, result, None)

    threading.Thread(target=run, name="editor", daemon=True).start()
    return await done
