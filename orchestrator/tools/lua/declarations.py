"""The rules of functions, locals, calls and assignments."""

from typing import Final

from orchestrator.tools.lua.chains import Local
from orchestrator.tools.lua.dialect import Dialect
from orchestrator.tools.lua.expressions import Expressions
from orchestrator.tools.lua.lexer import NAME, Tokens

_ASSIGNS: Final = frozenset({"=", ","})


class Declarations(Expressions):
    """Reads what gives names their values."""

    def __init__(self, tokens: Tokens, dialect: Dialect) -> None:
        super().__init__(tokens, dialect)
        self.call_statements: set[int] = set()
        """The first token of each statement that is a call, whose values nobody takes."""

    def statements(self, _: object) -> None:
        """Read a function's statements; they are the next part of the grammar."""
        raise NotImplementedError

    def function(self) -> None:
        opening = self.index
        self.advance()
        if self.kind != NAME:
            raise self.expected("<name>")
        self.name()
        method = False
        while self.kind in (".", ":") and not method:
            method = self.kind == ":"
            self.advance()
            self.field(self.expect_name())
        self.assigned()
        self.function_body(opening, method=method)

    def function_body(self, opening: int, *, method: bool) -> None:
        scopes = self.scopes
        before = self.tokens.texts[max(opening - 2, 0) : opening]
        scopes.open_function(opening, guarded=before in (["pcall", "("], ["xpcall", "("]))
        if self.kind != "(":
            raise self.expected("'('")
        self.advance()
        parameters = [scopes.declare("self", opening)] if method else []
        while self.kind != ")" or (parameters and self.kinds[self.index - 1] == ","):
            if self.kind == "...":
                scopes.function.vararg = True
                self.advance()
                break
            if self.kind != NAME:
                raise self.expected("<name> or '...'")
            parameters.append(scopes.declare(self.tokens.texts[self.index], self.index))
            self.advance()
            if self.kind != ",":
                break
            self.advance()
        self.expect(")")
        scopes.activate(self.index, *parameters)
        self.todo.append((self.after_body, opening))
        self.todo.append((self.statements, None))

    def after_body(self, opening: int) -> None:
        self.expect_closing("end", opening)
        self.scopes.close_function()

    def local(self) -> None:
        self.advance()
        if self.kind == "function":
            opening = self.index
            self.advance()
            token = self.index
            self.scopes.activate(self.index, self.scopes.declare(self.expect_name(), token))
            self.function_body(opening, method=False)
            return
        declared = []
        while True:
            token = self.index
            name = self.expect_name()
            declared.append(self.scopes.declare(name, token))
            if self.kind != ",":
                break
            self.advance()
        if self.kind != "=":
            self.scopes.activate(self.index, *declared)
            return
        self.advance()
        self.todo.append((self.after_value, (declared, 0, self.index)))
        self.todo.append((self.expression, 0))

    def after_value(self, data: tuple[list[Local], int, int]) -> None:
        """After one of the values of ``local``: which names it consists of, if of nothing else."""
        declared, place, start = data
        value = self.last_read
        if value is not None and value.start == start and value.end == self.index and place < len(declared):
            declared[place].alias = value
            if not value.fields and value.name == declared[place].name:
                value.how = "test"  # `local x = x` asks whether there is one
        self.scopes.hold(1)
        if self.kind == ",":
            self.advance()
            self.todo.append((self.after_value, (declared, place + 1, self.index)))
            self.expression()
            return
        self.scopes.release(place + 1)
        self.scopes.activate(self.index, *declared)

    # -- calls and assignments -------------------------------------------------------------

    def after_name(self, start: int) -> None:
        """After the expression that a call or an assignment begins with."""
        if self.kind in _ASSIGNS:
            self.target()
        elif self.shape == "call":
            self.call_statements.add(start)
        else:
            raise self.refused("syntax error")

    def target(self) -> None:
        """After what is assigned to."""
        if self.shape != "variable":
            raise self.refused("syntax error")
        self.assigned()
        if self.kind == ",":
            self.advance()
            self.todo.append((self.target_, None))
            self.primary()
        else:
            self.expect("=")
            self.expressions()

    def target_(self, _: object) -> None:
        self.target()

    def assigned(self) -> None:
        if self.named is not None:
            self.named.kept = False
        if self.chain is not None:
            self.settle(self.chain, "assign")
