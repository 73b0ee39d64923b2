"""Tasks about programs: written, fixed, run; the check runs them again."""

from typing import Final

from orchestrator.terminal.evaluation.cases import EvalTask, Machine, Reply, call, final, text, tool
from orchestrator.terminal.evaluation.checks import FileLacks, Prints, RanWell, World

_STOCK = text(
    "local stock = { coal = { count = 5 } }",
    "for _, name in ipairs({ 'coal', 'iron' }) do",
    "  print(name .. ': ' .. stock[name].count)",
    "end",
)
_SUM = text(
    "local function sum(n)",
    "  if n == 0 then return 0 end",
    "  return n + sum(n - 1)",
    "end",
    "print(sum(tonumber(... or 10)))",
)
_LOOP = text("local total = 0", "for n = 1, tonumber(... or 10) do", "  total = total + n", "end", "print(total)")
_COUNTDOWN = text("for n = 3, 2, -1 do", "  print(n)", "end", "print('liftoff')")
_DOOR = text(
    "write('Password: ')",
    "if read('*') == 'sesame' then",
    "  redstone.setOutput('right', true)",
    "  sleep(2)",
    "  redstone.setOutput('right', false)",
    "else",
    "  print('Wrong password')",
    "end",
)
_COUNT = text(
    "local total = 0",
    "for _, item in pairs(peripheral.call('left', 'list')) do",
    "  total = total + item.count",
    "end",
    "print(total)",
)
_SCORES = b'[{"name": "Ada", "score": 31}, {"name": "Grace", "score": 57}, {"name": "Linus", "score": 44}]\n'
_BEST = text(
    "local file = fs.open('scores.json', 'r')",
    "local scores = textutils.unserializeJSON(file.readAll())",
    "file.close()",
    "local best = scores[1]",
    "for _, one in ipairs(scores) do",
    "  if one.score > best.score then best = one end",
    "end",
    "print(best.name)",
)
_SHAPES = text("local shapes = {}", "function shapes.area(w, h)", "  return w * h", "end", "return shapes")
_MAIN = text("local shapes = require('lib.shapes')", "print(shapes.area(3, 4))")
_CHEST = {
    "type": "minecraft:chest",
    "size": 27,
    "items": {"2": "minecraft:cobblestone*64", "3": "minecraft:cobblestone*21", "20": "minecraft:torch*8"},
}


def _write(path: str, content: bytes) -> Reply:
    return tool(f"I write {path}.", call("cc_write", path=path, content=content.decode()))


def _run(path: str, *args: str, typed: str = "") -> Reply:
    given = {"args": list(args)} if args else {}
    return tool(f"I run {path}.", call("cc_run_program", path=path, **given, **({"input": typed} if typed else {})))


PROGRAMS: Final[tuple[EvalTask, ...]] = (
    EvalTask(
        name="hello",
        prompt="Write a program hello.lua that prints Hello, world! and run it.",
        machines=(Machine("hello"),),
        optimal=(
            _write("hello.lua", text("print('Hello, world!')")),
            _run("hello.lua"),
            final("It prints its greeting."),
        ),
        checks=(Prints("hello.lua", ("Hello, world!",)), RanWell("hello.lua", "Hello, world!")),
        touches=frozenset({"hello.lua"}),
    ),
    EvalTask(
        name="nil-index",
        prompt="stock.lua crashes. Fix it, so that it prints 0 for what is not in stock, and run it.",
        machines=(Machine("nil-index", {"stock.lua": _STOCK}),),
        optimal=(
            tool("I read it.", call("cc_read", path="stock.lua")),
            tool(
                "There may be no entry.",
                call(
                    "cc_edit",
                    path="stock.lua",
                    old="stock[name].count)",
                    new="(stock[name] and stock[name].count or 0))",
                ),
            ),
            _run("stock.lua"),
            final("stock.lua prints 0 for iron, which is not in stock."),
        ),
        checks=(Prints("stock.lua", ("coal: 5", "iron: 0")), RanWell("stock.lua", "iron: 0")),
        touches=frozenset({"stock.lua"}),
    ),
    EvalTask(
        name="off-by-one",
        prompt="countdown.lua should print 3, 2, 1 and liftoff, each on its own line. Fix it and run it.",
        machines=(Machine("off-by-one", {"countdown.lua": _COUNTDOWN}),),
        optimal=(
            tool("I read it.", call("cc_read", path="countdown.lua")),
            tool("The bound is wrong.", call("cc_edit", path="countdown.lua", old="3, 2, -1", new="3, 1, -1")),
            _run("countdown.lua"),
            final("countdown.lua counts down to 1."),
        ),
        checks=(Prints("countdown.lua", ("3\n2\n1\nliftoff\n",)), RanWell("countdown.lua", "liftoff")),
        touches=frozenset({"countdown.lua"}),
    ),
    EvalTask(
        name="no-recursion",
        prompt="sum.lua calls itself. Rewrite it with a loop, with the same result, and run it with 100000.",
        machines=(Machine("no-recursion", {"sum.lua": _SUM}),),
        optimal=(
            tool("I read it.", call("cc_read", path="sum.lua")),
            _write("sum.lua", _LOOP),
            _run("sum.lua", "100000"),
            final("sum.lua adds up in a loop; for 100000 it prints 5000050000."),
        ),
        checks=(
            FileLacks("sum.lua", "sum(n - 1)"),
            Prints("sum.lua", ("55",)),
            Prints("sum.lua", ("5000050000",), args=("100000",)),
        ),
        touches=frozenset({"sum.lua"}),
    ),
    EvalTask(
        name="door",
        prompt=(
            "Write door.lua: it asks for a password. For sesame it switches the redstone output on the right on for "
            "two seconds, for anything else it prints Wrong password. Try it once with a wrong one."
        ),
        machines=(Machine("door"),),
        optimal=(
            _write("door.lua", _DOOR),
            _run("door.lua", typed="open\n"),
            final("door.lua refuses a wrong password."),
        ),
        checks=(
            Prints(
                "door.lua", ("[redstone right true]", "[redstone right false]"), typed=("sesame",), never=("Wrong",)
            ),
            Prints("door.lua", ("Wrong password",), typed=("open",), never=("[redstone right true]",)),
        ),
        touches=frozenset({"door.lua"}),
    ),
    EvalTask(
        name="chest-program",
        prompt="Write count.lua, which prints how many items are in the chest on the left in all, and run it.",
        machines=(Machine("chest-program", world={"peripherals": {"left": _CHEST}}),),
        optimal=(_write("count.lua", _COUNT), _run("count.lua"), final("There are 93 items in the chest.")),
        checks=(Prints("count.lua", ("93",)), RanWell("count.lua", "93")),
        touches=frozenset({"count.lua"}),
    ),
    EvalTask(
        name="json",
        prompt="Write best.lua, which reads scores.json and prints the name with the highest score, and run it.",
        machines=(Machine("json", {"scores.json": _SCORES}),),
        optimal=(
            tool("I see how it is built.", call("cc_read", path="scores.json")),
            _write("best.lua", _BEST),
            _run("best.lua"),
            final("best.lua prints Grace."),
        ),
        checks=(Prints("best.lua", ("Grace",), never=("Ada", "Linus")), RanWell("best.lua", "Grace")),
        touches=frozenset({"best.lua"}),
    ),
    EvalTask(
        name="several-files",
        prompt=(
            "Write lib/shapes.lua, a module with a function area(w, h), and main.lua, which requires it and prints the "
            "area of 3 by 4. Run main.lua."
        ),
        machines=(Machine("several-files"),),
        optimal=(
            tool(
                "Both files.",
                call("cc_write", path="lib/shapes.lua", content=_SHAPES.decode()),
                call("cc_write", path="main.lua", content=_MAIN.decode()),
            ),
            _run("main.lua"),
            final("main.lua prints 12."),
        ),
        checks=(Prints("main.lua", ("12",)), RanWell("main.lua", "12")),
        touches=frozenset({"main.lua", "lib/shapes.lua"}),
    ),
    EvalTask(
        name="turtle-walk",
        prompt="Write walk.lua, which makes this turtle go three blocks forward, and run it.",
        machines=(
            Machine("turtle-walk", {}, "turtle", {"turtle": {"position": [0, 64, 0], "facing": "north", "fuel": 50}}),
        ),
        optimal=(
            _write("walk.lua", text("for _ = 1, 3 do", "  assert(turtle.forward())", "end")),
            _run("walk.lua"),
            final("The turtle went three blocks forward."),
        ),
        checks=(World("get turtle", [0, 64, -3], "position"), RanWell("walk.lua")),
        touches=frozenset({"walk.lua"}),
    ),
    EvalTask(
        name="turtle-dig",
        prompt="Write clear.lua, which digs the block in front of this turtle and goes there, and run it.",
        machines=(
            Machine(
                "turtle-dig",
                {},
                "turtle",
                {
                    "turtle": {"position": [0, 64, 0], "facing": "north", "fuel": 50},
                    "blocks": {"0,64,-1": "minecraft:stone", "0,64,-2": "minecraft:stone"},
                },
            ),
        ),
        optimal=(
            _write("clear.lua", text("assert(turtle.dig())", "assert(turtle.forward())")),
            _run("clear.lua"),
            final("The block is dug, and the turtle stands in its place."),
        ),
        checks=(
            World("get turtle", [0, 64, -1], "position"),
            World("get block 0,64,-1", "air"),
            World("get block 0,64,-2", "minecraft:stone"),
        ),
        touches=frozenset({"clear.lua"}),
    ),
)
"""Programs, from hello world to a turtle's."""
