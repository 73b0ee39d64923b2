"""A call's arguments changed by the person: in their own editor, the screen set aside, or in a field right here."""

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.app import SuspendNotSupported

from orchestrator.core.approval.approval import HitlResponse, RequestedCallView
from orchestrator.core.text.visible import visible
from orchestrator.terminal.console.edit import (
    MAX_REASON_CHARS,
    EditorFailed,
    args_as_json,
    edited_text,
    ending_of,
    parsed,
    text_argument,
)
from orchestrator.terminal.console.lines import Line, changes
from orchestrator.terminal.tui.dialogs import Ask, Choose, Write
from orchestrator.terminal.tui.pane import Pane

if TYPE_CHECKING:
    from orchestrator.terminal.tui.shared import Desk


class Editing:
    """Edits calls for one pane, and keeps what was not taken: the next edit begins with it."""

    def __init__(self, pane: Pane) -> None:
        self._pane = pane
        self._kept: dict[tuple[str, str], dict[str, Any]] = {}
        self._drafts: dict[tuple[str, str], str] = {}
        """What was written as JSON and is none."""

    @property
    def _desk(self) -> "Desk":
        return self._pane.desk

    async def edited(
        self, request: HitlResponse, call: RequestedCallView, *, here: bool
    ) -> tuple[dict[str, Any], str] | None:
        """All arguments as the person wants them, and why; None: they changed nothing, or dropped it."""
        key = (request.request_id, call.call_id)
        args = dict(self._kept.get(key, call.args))
        while True:
            try:
                args = await self._once(request, key, call.tool, args, here)
            except EditorFailed as error:
                kept = " What you wrote is kept for the next edit." if key in self._drafts else ""
                self._desk.tell(f"{error} Nothing was decided.{kept}")
                return None
            if request.request_id not in self._desk.reviews.requests:
                # A dialog was taken back then, and has said why.
                if not here:
                    self._desk.tell("It was closed meanwhile: nothing was sent.")
                return None
            differs = changes(call.args, args)
            if not differs:
                self._desk.tell("Unchanged: nothing was decided.")
                return None
            self._kept[key] = args
            said = await self._pane.app.push_screen_wait(
                Choose(
                    "Approve it like this?",
                    [Line("  what you changed:"), *differs],
                    [("y", "yes"), ("e", "edit again"), ("n", "no, drop it")],
                    about=request.request_id,
                )
            )
            if said == "e":
                continue
            if said == "n":
                self._kept.pop(key, None)
            reason = await self._why(request) if said == "y" else None
            if reason is None:
                self._desk.tell("Nothing was decided.")
                return None
            return args, reason

    def forget(self, request: HitlResponse) -> None:
        """It was taken."""
        for key in [one for one in self._kept if one[0] == request.request_id]:
            del self._kept[key]

    async def _why(self, request: HitlResponse) -> str | None:
        """Why it was edited, empty where the person does not say; None: they took the edit back."""
        title = "Why? The model is told (may be empty)."
        return await self._pane.app.push_screen_wait(Ask(title, most=MAX_REASON_CHARS, about=request.request_id))

    async def _once(
        self, request: HitlResponse, key: tuple[str, str], tool: str, args: dict[str, Any], here: bool
    ) -> dict[str, Any]:
        """The arguments after one round. Raises EditorFailed."""
        name = text_argument(tool, args)
        written = self._drafts.pop(key, args_as_json(args)) if name is None else args[name]
        ending = ".json" if name is None else ending_of(name, args)
        new = await (self._here(request, name, written) if here else self._in_editor(written, ending))
        if name is not None:
            return {**args, name: new}
        try:
            return parsed(new)
        except EditorFailed:
            self._drafts[key] = new
            raise

    async def _here(self, request: HitlResponse, name: str | None, text: str) -> str:
        if visible(text) != text or "\t" in text:
            raise EditorFailed("It has characters that a field would not show as they are: e opens your editor.")
        what = name or "the arguments, as JSON"
        found = await self._pane.app.push_screen_wait(Write(f"Edit {what}", text=text, about=request.request_id))
        return text if found is None else found

    async def _in_editor(self, text: str, ending: str) -> str:
        app = self._pane.app
        failure: BaseException | None = None
        try:
            # What is heard meanwhile is drawn when the editor has ended.
            with app.suspend(), app.batch_update():
                # What leaves this block as an exception leaves the screen set aside: the library takes it back else.
                try:
                    text = await _in_thread(lambda: edited_text(text, ending))
                except BaseException as error:  # noqa: BLE001 - raised again below
                    failure = error
        except SuspendNotSupported:
            raise EditorFailed("This terminal cannot be lent to an editor: i edits here.") from None
        if failure is not None:
            raise failure
        return text


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
