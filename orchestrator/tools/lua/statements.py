"""The rules of blocks, loops and jumps, and the parser made of all rules."""

from collections.abc import Callable
from typing import Any, Final

from orchestrator.tools.lua.declarations import Declarations
from orchestrator.tools.lua.lexer import EOF, NAME, Refused
from orchestrator.tools.lua.scopes import Local

BLOCK_ENDS: Final = frozenset({"else", "elseif", "end", EOF})


class Parser(Declarations):
    """Reads a whole text; :meth:`parse` raises :class:`Refused` where it is not Lua."""

    def parse(self) -> None:
        self.todo.append((self.end_of_text, None))
        self.todo.append((self.statements, None))
        self.run()

    def end_of_text(self, _: object) -> None:
        if self.kind != EOF:
            raise self.expected("<eof>")
        self.scopes.close_function()

    # -- lists of statements ---------------------------------------------------------------

    def statements(self, _: object) -> None:
        """Read a block's statements; its scope is the caller's."""
        if not self.dialect.lua52:
            self.deeper()
        self.more()

    def after_statement(self, _: object) -> None:
        if self.dialect.lua52:
            self.level -= 1
        elif self.kind == ";":
            self.advance()
        self.more()

    def after_last(self, _: object) -> None:
        """After ``return``, and 5.1's ``break``: the block has to end here."""
        if self.kind == ";":
            self.advance()
        self.level -= 1

    def more(self) -> None:
        """Read the next statements: simple ones at once, of others the beginning."""
        while True:
            kind = self.kind
            if kind in BLOCK_ENDS or kind == "until":
                if not self.dialect.lua52:
                    self.level -= 1
                return
            if self.dialect.lua52:
                self.deeper()
            start = _STARTS.get(kind)
            if start is not None:
                self.todo.append((self.after_statement, None))
                start(self)
                return
            if kind == "return":
                self.return_()
                return
            if kind == "break" or self.is_goto() or (kind in (";", "::") and self.dialect.lua52):
                if self.jump():
                    return
                continue
            self.todo.append((self.after_statement, None))
            self.todo.append((self.after_name, self.index))
            self.primary()
            return

    def jump(self) -> bool:
        """Read ``break``, ``goto``, labels or ``;``; True: the block ends here."""
        if self.kind == "break":
            self.break_()
            if not self.dialect.lua52:
                self.after_last(None)
                return True
        elif self.kind == ";":
            self.advance()
        elif self.kind == "::":
            self.labels()
        else:
            self.goto()
        self.level -= 1
        return False

    # -- jumps -----------------------------------------------------------------------------

    def is_goto(self) -> bool:
        if not self.dialect.lua52:
            return False
        if self.dialect.goto_is_reserved:
            return self.kind == "goto"
        index = self.index
        return self.kind == NAME and self.tokens.texts[index] == "goto" and self.kinds[index + 1] == NAME

    def goto(self) -> None:
        token = self.index
        self.advance()
        self.scopes.goto(self.expect_name(), token)

    def break_(self) -> None:
        if not self.scopes.in_loop():
            raise Refused("'break' stands outside of a loop", near=False)
        self.advance()

    def labels(self) -> None:
        """Read labels, with the empty statements between them: where they end decides what is in scope."""
        names: list[str] = []
        while self.kind in ("::", ";"):
            self.check_level(self.level + len(names))
            if self.kind == ";":
                self.advance()
                continue
            token = self.index
            self.advance()
            name = self.expect_name()
            if (earlier := self.scopes.label_exists(name)) is not None:
                line = self.tokens.line(earlier)
                raise Refused(f"label '{name}' already defined on line {line}", token, near=False)
            self.expect("::")
            self.scopes.function.block.labels[name] = token
            names.append(name)
        for name in reversed(names):
            self.scopes.label(name, last=self.kind in BLOCK_ENDS)

    def return_(self) -> None:
        self.todo.append((self.after_return, None))
        self.advance()
        if self.kind not in BLOCK_ENDS and self.kind not in ("until", ";"):
            self.expressions()

    def after_return(self, _: object) -> None:
        self.after_last(None)

    # -- blocks ----------------------------------------------------------------------------

    def block(self, after: Callable[[Any], None], data: object, *, loop: bool = False) -> None:
        """Read a block with a scope of its own, which ``after`` closes."""
        self.scopes.open_block(loop=loop)
        self.todo.append((after, data))
        self.todo.append((self.statements, None))

    def do(self) -> None:
        opening = self.index
        self.advance()
        self.block(self.after_block, opening)

    def after_block(self, opening: int) -> None:
        self.scopes.close_block()
        self.expect_closing("end", opening)

    def if_(self) -> None:
        self.condition(self.index)

    def condition(self, opening: int) -> None:
        self.advance()
        self.todo.append((self.after_condition, opening))
        self.todo.append((self.expression, 0))

    def after_condition(self, opening: int) -> None:
        self.expect("then")
        self.block(self.after_branch, opening)
        if self.dialect.lua52 and (self.kind == "break" or self.is_goto()):
            # The compiler reads such a first statement with the condition, outside of any level.
            self.level += 1
            self.jump()

    def after_branch(self, opening: int) -> None:
        self.scopes.close_block()
        if self.kind == "elseif":
            self.condition(opening)
        elif self.kind == "else":
            self.advance()
            self.block(self.after_block, opening)
        else:
            self.expect_closing("end", opening)

    def while_(self) -> None:
        opening = self.index
        self.advance()
        self.todo.append((self.after_while, opening))
        self.todo.append((self.expression, 0))

    def after_while(self, opening: int) -> None:
        self.expect("do")
        self.block(self.after_block, opening, loop=True)

    def repeat(self) -> None:
        opening = self.index
        self.advance()
        self.block(self.after_repeat, opening, loop=True)

    def after_repeat(self, opening: int) -> None:
        self.expect_closing("until", opening)
        self.todo.append((self.after_until, None))
        self.todo.append((self.expression, 0))

    def after_until(self, _: object) -> None:
        self.scopes.close_block()

    # -- for -------------------------------------------------------------------------------

    def for_(self) -> None:
        opening = self.index
        self.advance()
        self.scopes.open_block(loop=True)
        token = self.index
        names = [self.expect_name()]
        hidden = [self.scopes.declare(f"(for {what})", token) for what in ("first", "second", "third")]
        declared = [self.scopes.declare(names[0], token)]
        if self.kind == "=":
            self.advance()
            self.todo.append((self.after_bound, (opening, hidden, declared, 1)))
        elif self.kind in (",", "in"):
            while self.kind == ",":
                self.advance()
                token = self.index
                declared.append(self.scopes.declare(self.expect_name(), token))
            self.expect("in")
            self.todo.append((self.for_body, (opening, hidden, declared)))
            self.expressions()
            return
        else:
            raise self.expected("'=' or 'in'")
        self.todo.append((self.expression, 0))

    def after_bound(self, data: tuple[int, list[Local], list[Local], int]) -> None:
        opening, hidden, declared, bounds = data
        if bounds == 1 or (bounds == 2 and self.kind == ","):
            self.expect(",")
            self.todo.append((self.after_bound, (opening, hidden, declared, bounds + 1)))
            self.expression()
            return
        self.for_body((opening, hidden, declared))

    def for_body(self, data: tuple[int, list[Local], list[Local]]) -> None:
        opening, hidden, declared = data
        self.scopes.activate(self.index, *hidden)
        self.expect("do")
        self.block(self.after_for, opening)
        self.scopes.activate(self.index, *declared)

    def after_for(self, opening: int) -> None:
        self.scopes.close_block()
        self.expect_closing("end", opening)
        self.scopes.close_block()


_STARTS: Final[dict[str, Callable[[Parser], None]]] = {
    "if": Parser.if_,
    "while": Parser.while_,
    "do": Parser.do,
    "for": Parser.for_,
    "repeat": Parser.repeat,
    "function": Parser.function,
    "local": Parser.local,
}
