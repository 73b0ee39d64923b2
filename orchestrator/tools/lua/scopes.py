"""Names in Lua: functions, blocks, local variables, labels, and the compiler's limits on them.

What ``lparser.c`` of Lua 5.2 does with ``FuncState``, ``BlockCnt``, pending gotos and active labels, changed so that
the work stays linear: a name finds its variable by a dictionary, and of the gotos in a block that wait for one label
only the first is kept. Most locals begin after it, and a goto may not pass the beginning of one that is in scope.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

from orchestrator.tools.lua.lexer import Dialect, Refused

# -- A name with the fields behind it, as the parser sees it: ``peripheral.wrap``, ``_G.turtle``, ``t.dig``

How = Literal["read", "test", "index", "call", "method", "assign"]
"""``index``: by a key that is not constant, so that what follows is not known."""


class Local:
    """A local variable."""

    __slots__ = ("alias", "function", "kept", "name", "since")

    def __init__(self, name: str, function: object) -> None:
        self.name = name
        self.function = function
        """The function that declares it."""
        self.alias: Chain | None = None
        """The names that it was made from: ``turtle`` after ``local t = turtle``."""
        self.since = 0
        """The token at which its scope begins."""
        self.kept = True
        """It is never assigned again."""


class Chain:
    """A name and constant fields."""

    __slots__ = ("end", "fields", "guarded", "how", "name", "root", "start")

    def __init__(self, name: str, root: Local | None, start: int) -> None:
        self.name = name
        self.root = root
        """The local that the name means; None: it is a global."""
        self.start = start
        """Index of its first token."""
        self.end = start + 1
        """Index of the token after it."""
        self.fields: list[str] = []
        self.how: How = "read"
        self.guarded = False
        """It is in a function that is given to ``pcall``: it may be there only to see whether it works."""


# -- Names in Lua: functions, blocks, local variables, labels, and the compiler's limits on them

MAX_LOCALS: Final = 200
MAX_REGISTERS: Final = 250


@dataclass
class Block:
    """A block of a function."""

    locals_before: int
    is_loop: bool
    parent: "Block | None"
    own: list[Local] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """The token of each label."""
    gotos: dict[str, int] = field(default_factory=dict)
    """The first token of those in it and its inner blocks that wait for each label."""


@dataclass
class Function:
    """A function that is being read; the text itself is one."""

    token: int
    parent: "Function | None"
    vararg: bool
    block: Block
    guarded: bool = False
    """It, or one around it, is given to ``pcall`` where it is written."""
    registered: int = 0
    """Locals declared, also those whose statement is not over yet."""
    active: int = 0
    """Locals in scope."""
    busy: int = 0
    """Registers that hold arguments, list items and values of the present statement, at least."""
    upvalues: set[str] = field(default_factory=set)


class Scopes:
    """All scopes that are open at one place of a text."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._by_name: dict[str, list[Local]] = {}
        self._registered = 0
        self.declared: dict[str, int] = {}
        """The token of the first local of each name."""
        self.function = Function(0, None, True, Block(0, False, None))

    def open_function(self, token: int, *, guarded: bool) -> None:
        guarded = guarded or self.function.guarded
        self.function = Function(token, self.function, False, Block(0, False, None), guarded)

    def close_function(self) -> None:
        closed = self.function
        self.close_block()
        if closed.parent is not None:
            self.function = closed.parent

    def open_block(self, *, loop: bool = False) -> None:
        function = self.function
        function.block = Block(function.active, loop, function.block)

    def close_block(self) -> None:
        """Leave a block: its locals end, its gotos look for their labels further out."""
        function, block = self.function, self.function.block
        for local in reversed(block.own):
            self._by_name[local.name].pop()
        function.active = block.locals_before
        function.registered -= len(block.own)
        self._registered -= len(block.own)
        if block.parent is not None:
            function.block = block.parent
            _hand_out(block.gotos, block.parent)
        elif block.gotos:
            token, name = min((token, name) for name, token in block.gotos.items())
            raise Refused(f"no visible label '{name}' for goto", token, near=False)

    def declare(self, name: str, token: int) -> Local:
        """A new local of the present block, not in scope yet."""
        function = self.function
        function.registered += 1
        self._registered += 1
        counted = self._registered if self._dialect.shared_locals else function.registered
        if counted > MAX_LOCALS:
            raise self.too_many(MAX_LOCALS, "local variables")
        self.declared.setdefault(name, token)
        return Local(name, function)

    def activate(self, token: int, *locals_: Local) -> None:
        """Bring declared locals into scope, from a token on."""
        function = self.function
        function.active += len(locals_)
        function.block.own.extend(locals_)
        for local in locals_:
            local.since = token
            self._by_name.setdefault(local.name, []).append(local)

    def find(self, name: str) -> Local | None:
        """The local that a name means here; None: it is a global. Counts upvalues."""
        found = self._by_name.get(name)
        function = self.function
        if found:
            local = found[-1]
            if local.function is not function:
                self._capture(name, local.function)
            return local
        if function.parent is not None and self._dialect.env_is_upvalue and "_ENV" not in function.upvalues:
            self.find("_ENV") if self._by_name.get("_ENV") else self._capture("_ENV", None)
        return None

    def _capture(self, name: str, owner: object) -> None:
        function: Function | None = self.function
        while function is not owner and function is not None and name not in function.upvalues:
            if function.parent is None:
                break
            function.upvalues.add(name)
            if len(function.upvalues) > self._dialect.max_upvalues:
                raise self.too_many(self._dialect.max_upvalues, "upvalues", function)
            function = function.parent

    def hold(self, registers: int) -> None:
        """Keep registers busy until :meth:`release`; a lower bound of what the compiler needs."""
        function = self.function
        function.busy += registers
        if function.active + function.busy >= MAX_REGISTERS:
            raise Refused("function or expression too complex (it needs more than 250 registers)")

    def release(self, registers: int) -> None:
        self.function.busy -= registers

    def in_loop(self) -> bool:
        block: Block | None = self.function.block
        while block is not None and not block.is_loop:
            block = block.parent
        return block is not None

    def goto(self, name: str, token: int) -> None:
        block = self.function.block
        if name not in block.labels:
            block.gotos.setdefault(name, token)

    def label_exists(self, name: str) -> int | None:
        """The token of a label that a new one of this name would clash with; None: there is none."""
        block: Block | None = self.function.block
        while block is not None:
            if name in block.labels:
                return block.labels[name]
            block = block.parent if self._dialect.unique_labels else None
        return None

    def label(self, name: str, *, last: bool) -> None:
        """Resolve the gotos that wait for a label; ``last``: nothing but the block's end follows it."""
        block = self.function.block
        token = block.gotos.pop(name, None)
        if token is None or last or not block.own or block.own[-1].since <= token:
            return
        entered = next(local.name for local in block.own if local.since > token)
        raise Refused(f"goto '{name}' jumps into the scope of local '{entered}'", token, near=False)

    def too_many(self, limit: int, what: str, function: Function | None = None) -> Refused:
        function = function or self.function
        return Refused(f"a function has more than {limit} {what}", None if function.parent is None else function.token)


def _hand_out(gotos: dict[str, int], block: Block) -> None:
    """Let the gotos of a closed block wait in the one around it, unless their label is there already."""
    few, many = sorted((gotos, block.labels), key=len)
    for name in [name for name in few if name in many]:
        del gotos[name]
    few, many = sorted((gotos, block.gotos), key=len)
    for name, token in few.items():
        many[name] = min(token, many.get(name, token))
    block.gotos = many
