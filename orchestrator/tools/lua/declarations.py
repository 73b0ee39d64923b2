"""The rules of functions, locals, calls and assignments."""

from typing import Final, Literal

from orchestrator.tools.lua.lexer import NAME, NUMBER, STRING, Dialect, Tokens
from orchestrator.tools.lua.machine import Machine
from orchestrator.tools.lua.scopes import Chain, Local

# -- The rules of expressions ------------------------------------------------------------
#
# A rule that is called by another rule writes down (``todo``) what it cannot do at once; see
# :mod:`orchestrator.tools.lua.machine`.

UNARY: Final = frozenset({"not", "-", "#"})
UNARY_PRIORITY: Final = 8
BINARY: Final = {
    **dict.fromkeys(("+", "-"), (6, 6)),
    **dict.fromkeys(("*", "/", "%"), (7, 7)),
    "^": (10, 9),
    "..": (5, 4),
    **dict.fromkeys(("==", "~=", "<", "<=", ">", ">="), (3, 3)),
    "and": (2, 2),
    "or": (1, 1),
}
"""How strongly each operator binds to its left and to its right; as in ``lparser.c``."""
LITERALS: Final = frozenset({NUMBER, STRING, "nil", "true", "false"})
ARGUMENTS: Final = frozenset({"(", "{", STRING})
_PRIMARY: Final = frozenset({NAME, "("})
_SEPARATORS: Final = frozenset({",", ";"})

Shape = Literal["variable", "call", "value"]


class Expressions(Machine):
    """Reads expressions; ``shape`` says what the last one with suffixes was."""

    shape: Shape = "value"

    def expression(self, limit: int = 0) -> None:
        """Read an expression whose operators all bind more strongly than ``limit``."""
        todo = self.todo
        while True:
            self.deeper()
            if self.kind not in UNARY:
                break
            todo.append((self.after_operand, limit))
            limit = UNARY_PRIORITY
            self.advance()
        if self.kind in LITERALS:
            self.advance()
            if self.kind not in BINARY:
                self.level -= 1
                return
            todo.append((self.after_operand, limit))
        else:
            todo.append((self.after_operand, limit))
            self.operand()

    def after_operand(self, limit: int) -> None:
        if self.chain is not None:
            self.settle(self.chain)
        priorities = BINARY.get(self.kind)
        if priorities is None or priorities[0] <= limit:
            self.level -= 1
            return
        self.advance()
        self.todo.append((self.after_operand, limit))
        self.expression(priorities[1])

    def operand(self) -> None:
        kind = self.kind
        if kind in _PRIMARY:
            self.primary()
        elif kind == "{":
            self.table()
        elif kind == "function":
            opening = self.index
            self.advance()
            self.function_body(opening, method=False)
        elif kind == "...":
            if not self.scopes.function.vararg:
                raise self.refused("cannot use '...' outside a vararg function")
            self.advance()
        else:
            raise self.refused("unexpected symbol")

    def function_body(self, opening: int, *, method: bool) -> None:
        """Read parameters and body; statements are the other half of the grammar."""
        raise NotImplementedError

    # -- names, fields, calls --------------------------------------------------------------

    def primary(self) -> None:
        """Read a name or parentheses, and all suffixes."""
        if self.kind == NAME:
            self.name()
            self.suffixes()
        elif self.kind == "(":
            self.todo.append((self.after_parentheses, self.index))
            self.todo.append((self.expression, 0))
            self.advance()
        else:
            raise self.refused("unexpected symbol")

    def name(self) -> None:
        name = self.tokens.texts[self.index]
        local = self.scopes.find(name)
        if local is None:
            self.chain = Chain(name, None, self.index)
        elif local.alias is not None:
            self.chain = Chain(name, local, self.index)
        self.named = local
        self.shape = "variable"
        self.advance()

    named: Local | None = None
    """The local that the last bare name meant; see :meth:`suffixes`."""

    def after_parentheses(self, opening: int) -> None:
        self.expect_closing(")", opening)
        self.shape = "value"
        self.suffixes()

    def suffixes(self) -> None:
        """Read fields, indexes and calls, as many as follow."""
        while True:
            kind = self.kind
            if kind == ".":
                self.advance()
                self.field(self.expect_name())
            elif kind in ARGUMENTS:
                if self.call("call"):
                    return
            elif kind == "[":
                if self.index_by():
                    return
            elif kind == ":":
                self.advance()
                self.field(self.expect_name())
                if self.kind not in ARGUMENTS:
                    raise self.refused("function arguments expected")
                if self.call("method"):
                    return
            else:
                return

    def field(self, name: str) -> None:
        self.shape = "variable"
        self.named = None
        if self.chain is not None:
            self.chain.fields.append(name)

    def index_by(self) -> bool:
        """Read ``[…]``; True: the rest is written down."""
        kinds, index = self.kinds, self.index
        if kinds[index + 1] == STRING and kinds[index + 2] == "]":
            key = self.tokens.texts[index + 1]
            self.advance()
            self.advance()
            self.advance()
            if "\\" in key or key[0] == "[":
                self.end_chain()
            self.field(key[1:-1])
            return False
        self.end_chain()
        self.advance()
        self.todo.append((self.after_index, None))
        self.todo.append((self.expression, 0))
        return True

    def end_chain(self) -> None:
        """The next part has no constant name: the chain ends here."""
        if self.chain is not None:
            self.settle(self.chain, "index")

    def after_index(self, _: object) -> None:
        self.expect("]")
        self.shape = "variable"
        self.named = None
        self.suffixes()

    def call(self, how: Literal["call", "method"]) -> bool:
        """Read arguments; True: the rest is written down."""
        kind = self.kind
        if self.chain is not None:
            self.settle(self.chain, how)
        self.shape = "call"
        self.named = None
        if kind == STRING:
            self.advance()
            return False
        if kind == "{":
            self.todo.append((self.after_table_argument, None))
            self.table()
            return True
        if not self.dialect.lua52 and self.tokens.newline_before(self.index) and not self.begins_field():
            raise self.refused("ambiguous syntax (function call x new statement)")
        opening = self.index
        self.advance()
        if self.kind == ")":
            self.advance()
            return False
        held = 1 if how == "call" else 2
        self.scopes.hold(held)
        self.todo.append((self.after_argument, (opening, held)))
        self.todo.append((self.expression, 0))
        return True

    def begins_field(self) -> bool:
        """Whether the call follows a name that begins a table's field, where the old compiler had looked ahead."""
        kinds, index = self.kinds, self.index
        return kinds[index - 1] == NAME and kinds[index - 2] in ("{", ",", ";") and self.in_table()

    def in_table(self) -> bool:
        return len(self.todo) > 1 and self.todo[-2][0] == self.after_field

    def after_table_argument(self, _: object) -> None:
        self.shape = "call"
        self.named = None
        self.suffixes()

    def after_argument(self, data: tuple[int, int]) -> None:
        opening, held = data
        if self.kind == ",":
            self.advance()
            self.scopes.hold(1)
            self.todo.append((self.after_argument, (opening, held + 1)))
            self.expression()
            return
        self.scopes.hold(1)
        self.scopes.release(held + 1)
        self.expect_closing(")", opening)
        self.shape = "call"
        self.named = None
        self.suffixes()

    # -- tables ----------------------------------------------------------------------------

    def table(self) -> None:
        self.todo.append((self.fields, self.index))
        self.advance()

    def fields(self, opening: int) -> None:
        """Read the next field, or the end."""
        kind = self.kind
        if kind == "}":
            self.advance()
            return
        if kind == NAME and self.kinds[self.index + 1] == "=":
            self.advance()
            self.advance()
        elif kind == "[":
            self.advance()
            self.todo.append((self.after_key, opening))
            self.expression()
            return
        self.todo.append((self.after_field, opening))
        self.expression()

    def after_key(self, opening: int) -> None:
        self.expect("]")
        self.expect("=")
        self.todo.append((self.after_field, opening))
        self.expression()

    def after_field(self, opening: int) -> None:
        if self.kind in _SEPARATORS:
            self.advance()
            self.fields(opening)
        else:
            self.expect_closing("}", opening)

    # -- lists -----------------------------------------------------------------------------

    def expressions(self) -> None:
        """Read a list of at least one expression."""
        self.todo.append((self.after_listed, 0))
        self.todo.append((self.expression, 0))

    def after_listed(self, held: int) -> None:
        if self.kind == ",":
            self.advance()
            self.scopes.hold(1)
            self.todo.append((self.after_listed, held + 1))
            self.expression()
        else:
            self.scopes.hold(1)
            self.scopes.release(held + 1)


# -- The rules of functions, locals, calls and assignments -------------------------------

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
