"""The workspace of several nodes: one directory that all of them share, or none.

A file in it says which one it is, and the store which one it has to be. A node whose workspace is another would work
on other files than those that the reviewer was shown, so there every ``local_*`` call is refused, with the reason.
"""

import asyncio
import contextlib
import os
import secrets
from pathlib import Path
from typing import Final, NoReturn

from orchestrator.core.errors import ToolFailed
from orchestrator.core.ports import Store, Workspace
from orchestrator.tools.workspace import STAGING, DirectoryWorkspace

MARKER: Final = ".workspace-id"
"""In the workspace's own directory; what is staged there never begins with a dot."""
_AGREED: Final = "workspace"


async def workspace_of(store: Store, root: Path) -> Workspace:
    """The workspace of a node; of one that has another than the other nodes, one that refuses everything.

    Raises ToolFailed where the directory cannot be used at all.
    """
    space = DirectoryWorkspace(root)
    if not store.shared:
        return space
    own = await asyncio.to_thread(_identity, space.root)
    agreed = await store.agree(_AGREED, own)
    return space if own == agreed else RefusedWorkspace(space.root, agreed)


class RefusedWorkspace:
    """A ``Workspace`` that is not the one of the other nodes: it does nothing and says why."""

    def __init__(self, root: Path, agreed: str) -> None:
        self._root = root
        self.why = ToolFailed(
            f"{root} on this node is not the workspace that the other nodes of this store have, so local_* cannot be "
            "used here.",
            remedy="Start this node with --workspace naming the one directory that all nodes share. "
            f"(The one meant has {agreed} in its {STAGING}/{MARKER}.)",
        )

    @property
    def root(self) -> Path:
        """The directory itself."""
        return self._root

    def read_bytes(self, path: str) -> bytes | None:
        """Raises ToolFailed, as all below."""
        self._refuse(path)

    def inside(self, path: str) -> tuple[str, ...] | None:
        """Refused."""
        self._refuse(path)

    def missing_above(self, path: str) -> tuple[str, ...]:
        """Refused."""
        self._refuse(path)

    def stage(self, name: str, data: bytes | None) -> None:
        """Refused."""
        self._refuse(name, data)

    def commit(self, name: str, path: str, found: str | None = None) -> None:
        """Refused."""
        self._refuse(name, path, found)

    def remove(self, name: str, path: str, found: str | None = None) -> None:
        """Refused."""
        self._refuse(name, path, found)

    def discard(self, name: str) -> bool:
        """Refused: whether anything is staged there nobody here can tell."""
        self._refuse(name)

    def _refuse(self, *_: object) -> NoReturn:
        raise ToolFailed(self.why.message, remedy=self.why.remedy)


def _identity(root: Path) -> str:
    """What a workspace is called in its marker, which is made when it is not there. Raises ToolFailed."""
    marker = root / STAGING / MARKER
    try:
        marker.parent.mkdir(exist_ok=True)
        if not marker.exists():
            new = marker.with_name(f"{MARKER}.{secrets.token_hex(8)}")
            new.write_text(f"w-{secrets.token_hex(16)}\n", "ascii")
            # Whole or not at all, and of two nodes that make one at once the first counts.
            with contextlib.suppress(FileExistsError):
                os.link(new, marker)
            new.unlink()
        return marker.read_text("ascii", "replace").strip()
    except OSError as error:
        raise ToolFailed(
            f"The workspace {root} cannot be marked as the one that all nodes share: {error.strerror or error}.",
            remedy="Let the server's user write there, or name another directory with --workspace.",
        ) from None
