"""A disk drive, and the floppy disk in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cc_client.simulator.world.peripherals import Finder, Peripheral, text


@dataclass
class Drive(Peripheral):
    """A drive; its disk is a host directory, or none is in it."""

    directory: Path | None = None
    label: str | None = None
    disk_id: int = 0
    mounted: str = ""
    METHODS: ClassVar[Mapping[str, str]] = {
        "isDiskPresent": "is_present",
        "hasData": "is_present",
        "getMountPath": "mount_path",
        "getDiskLabel": "disk_label",
        "setDiskLabel": "set_label",
        "getDiskID": "number",
        "hasAudio": "has_audio",
        "ejectDisk": "eject",
    }

    def is_present(self, _: Finder) -> bool:
        """Whether a disk is in it."""
        return self.directory is not None

    def mount_path(self, _: Finder) -> str | None:
        """Where the disk is mounted."""
        return None if self.directory is None else self.mounted

    def disk_label(self, _: Finder) -> str | None:
        """What is written on the disk."""
        return None if self.directory is None else self.label

    def set_label(self, _: Finder, label: object = None) -> None:
        """Write something else on the disk."""
        self.label = None if label is None else text(label)

    def number(self, _: Finder) -> int | None:
        """The disk's own number."""
        return None if self.directory is None else self.disk_id

    def has_audio(self, _: Finder) -> bool:
        """Whether it is a record: it never is."""
        return False

    def eject(self, _: Finder) -> None:
        """Throw the disk out; nobody puts it back."""
        self.directory = None
