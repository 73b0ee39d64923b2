"""A computer's backups: their list, the files of each, a new one, and a restore of all or a part."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from textual.app import ComposeResult
from textual.binding import Binding

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line, visible
from orchestrator.terminal.meter import bar
from orchestrator.terminal.output import counted, sized
from orchestrator.terminal.review.request_view import Line, restore_told
from orchestrator.terminal.tui.dialogs import Ask, Choose, Listing, Show, Ticks
from orchestrator.terminal.tui.lines_view import begin, moment, name_of, segment
from orchestrator.terminal.tui.row_list import Entry

if TYPE_CHECKING:
    from orchestrator.terminal.tui.row_list import Pane

_LOOK_S: Final = 0.3
"""Between two looks how far it has come."""
_MOST_NOTE: Final = 200
_MOST_PATHS: Final = 500
"""The most paths that are put back at once by name."""


class Backups(Listing):
    """The backups of one computer, and below them what is in the chosen one."""

    head = ("MADE", "FILES", "SIZE", "BY", "NOTE")
    empty = "None yet: n keeps every file as it is now, so that all of it, or one file, can be put back."
    keys = (
        "n back up now   Tab its files   Space ticks   r put back (ticked, or all)   d details   x forget   Esc leaves"
    )
    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("n", "make", show=False),
        Binding("r", "restore", show=False),
        Binding("d", "details", show=False),
        Binding("x", "remove", show=False),
    ]

    def __init__(self, pane: "Pane", computer: str) -> None:
        super().__init__(f"Backups of computer {name_of(computer)}", pane.desk)
        self._pane, self._computer = pane, computer
        self._backups: dict[str, Mapping[str, Any]] = {}
        self._whole: Mapping[str, Any] | None = None
        """The chosen one, with its files."""
        self.begun = ""
        """The work that began when this was left, as a sentence."""

    @property
    def _endpoint(self) -> str:
        return f"/v1/computers/{segment(self._computer)}"

    def below(self) -> ComposeResult:
        yield Ticks(("PATH", "SIZE"), (), empty="", id="files")

    @property
    def _files(self) -> Ticks:
        return self.query_one("#files", Ticks)

    # -- what there is -------------------------------------------------------------------

    def read(self) -> None:
        """See Listing."""
        begin(self, self._read, in_place_of="list")

    async def _read(self) -> None:
        found = await self.ask("GET", f"{self._endpoint}/backups")
        if found is None:
            return
        self._backups = {one["backup_id"]: one for one in found["backups"]}
        self.rows.show([_entry(one) for one in self._backups.values()])
        self.chosen(self.rows.chosen)

    def chosen(self, key: str | None) -> None:
        """Show what is in a backup."""
        begin(self, self._open, key, in_place_of="open")

    async def _open(self, key: str | None) -> None:
        if key is None or (self._whole is not None and self._whole["backup_id"] == key):
            return
        self._whole = None
        self._files.offer(())
        found = await self.ask("GET", f"{self._endpoint}/backups/{segment(key)}")
        if found is None:
            return
        self._whole = found
        self._files.offer([(one["path"], _cells(one)) for one in found["paths"]])
        left_out = len(found["skipped"]) + found["skipped_more"]
        out = f"; {left_out} left out, d says why" if left_out else ""
        self.label(
            f"{counted(found['files'], 'file')}, {sized(found['bytes'])}{out}. Ticked: what r puts back; none: all"
        )

    def action_details(self) -> None:
        """All that is known of it."""
        if self._whole is not None:
            self.app.push_screen(Show("A backup", list(lines_of(self._whole))))

    # -- one more ------------------------------------------------------------------------

    def action_make(self) -> None:
        """Keep all that is on the computer now."""
        begin(self, self._ask_make)

    async def _ask_make(self) -> None:
        note = await self.app.push_screen_wait(
            Ask("Back it up now. A note to know it by (may be empty)", most=_MOST_NOTE)
        )
        if note is not None:
            # It goes on where this is left, and what became of it is said there.
            begin(self._pane, self._make, note)

    async def _make(self, note: str) -> None:
        self.show_news(f"Computer {name_of(self._computer)} is being read…")
        showing = asyncio.create_task(self._show_progress())
        try:
            made = await self.ask("POST", f"{self._endpoint}/backups", {"note": note}, long=True)
        finally:
            showing.cancel()
        if made is None:
            return
        if self.is_attached:
            await self._read()
            self.rows.choose(made["backup_id"])
        self.say(f"Carried out: {counted(made['files'], 'file')} kept, {sized(made['new_bytes'])} of it new.")

    async def _show_progress(self) -> None:
        """Say how far it has come, until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                rows = (await self.desk.live.ask("GET", "/v1/transfers"))["transfers"]
            except OrchestratorError:
                continue
            row = next(
                (one for one in reversed(rows) if (one["what"], one["computer"]) == ("backup", self._computer)), None
            )
            if row is not None and row["of_files"]:
                done = f"{row['files']} of {row['of_files']} files, {sized(row['bytes'])}"
                self.show_news(f"{bar(row['files'] / row['of_files'])} {done}")

    # -- back again ----------------------------------------------------------------------

    def action_restore(self) -> None:
        """Put the ticked files back, or all of them."""
        if self._whole is None:
            self.show_news("No backup is chosen.")
        elif len(self._files.ticked) > _MOST_PATHS:
            self.show_news(f"At most {_MOST_PATHS} are put back by name: tick fewer, or none for all.")
        else:
            begin(self, self._restore, self._whole, tuple(self._files.ticked), in_place_of="restore")

    async def _restore(self, backup: Mapping[str, Any], paths: Sequence[str]) -> None:
        exact = False
        while True:
            body = {"backup": backup["backup_id"], "paths": list(paths), "exact": exact}
            self.show_news("It is being compared with what is there now…")
            preview = await self.ask("POST", f"{self._endpoint}/restore", {**body, "dry_run": True}, long=True)
            if preview is None:
                return
            self.show_news("")
            said = await self._agreed(preview, paths)
            if said != "e":
                break
            exact = not exact
        if said is not None:
            begin(self._pane, self._put_back, body)

    async def _put_back(self, body: Mapping[str, Any]) -> None:
        """Begin the task, and go to it; only say so if this was left meanwhile."""
        answer = await self.ask("POST", f"{self._endpoint}/restore", body)
        if answer is None:
            return
        waits = "" if answer["online"] else " The computer is away: it waits for it."
        self.begun = f"Task {answer['task_id']} puts it back, once it is approved.{waits}"
        if self.is_attached:
            self.dismiss(answer["task_id"])
        else:
            self.desk.tell(self.begun)

    async def _agreed(self, preview: Mapping[str, Any], paths: Sequence[str]) -> str | None:
        """The person's answer to the changes that would be made."""
        lines = [Line(f"  {visible(one)}") for one in restore_told(preview)]
        choices = [("y", "put it back")]
        if not paths:
            exactly = "keep what came since" if preview["exact"] else "also remove what came since"
            choices.append(("e", exactly))
        which = counted(len(paths), "path") if paths else "all of it"
        title = f"Put {which} back? It is a task of its own, waits for approval, and can be undone."
        return await self.app.push_screen_wait(Choose(title, lines, choices, enter="y"))

    # -- one less ------------------------------------------------------------------------

    def action_remove(self) -> None:
        """Forget the chosen backup."""
        if self._whole is not None:
            begin(self._pane, self._remove, self._whole)

    async def _remove(self, backup: Mapping[str, Any]) -> None:
        lines = [
            *lines_of(backup),
            Line("Its bytes go with the next prune. It cannot be taken back.", "warning", prose=True),
        ]
        if not await self.app.push_screen_wait(Choose("Forget this backup?", lines, [("y", "forget it")])):
            return
        answer = await self.ask("DELETE", f"{self._endpoint}/backups/{segment(backup['backup_id'])}")
        if answer is not None:
            self.read_again()
            self.say("Carried out: it is forgotten." if answer["removed"] else "Too late: somebody removed it before.")


def lines_of(backup: Mapping[str, Any]) -> Iterator[Line]:
    """The known facts of a backup, without its files."""
    yield Line(f"── Backup {one_line(backup['backup_id'])}", "title")
    yield Line(f"  made     {moment(backup['at'])} by {name_of(backup['by'])}")
    if backup["note"]:
        yield Line(f"  note     {one_line(backup['note'])}", prose=True)
    new = f"{sized(backup['new_bytes'])} of it were new"
    yield Line(f"  files    {backup['files']} with {sized(backup['bytes'])}; {new}")
    yield Line(f"  listing  {one_line(backup['listing'])}")
    for one in backup["skipped"]:
        yield Line(f"  left out {one_line(one['path'])} ({one_line(one['why'], limit=300)})", prose=True)
    if backup["skipped_more"]:
        yield Line(f"  left out {backup['skipped_more']} more")


def _entry(one: Mapping[str, Any]) -> Entry:
    note = one_line(one["note"]) or "-"
    return Entry(
        one["backup_id"], (moment(one["at"]), str(one["files"]), sized(one["bytes"]), name_of(one["by"]), note)
    )


def _cells(one: Mapping[str, Any]) -> tuple[str, ...]:
    size = "directory" if one["state"] == "directory" else sized(one["size"])
    return (one_line(one["path"], limit=300), size)
