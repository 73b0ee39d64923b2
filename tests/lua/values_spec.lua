local json = require("json")
local spec = require("spec")
local values = require("values")
local describe, it, expect = spec.describe, spec.it, spec.expect

local function text(...)
  return (values.encode({ ... }, 1, select("#", ...)))
end

describe("values", function()
  it("are written as JSON", function()
    expect(text()).to_be("[]")
    expect(text(nil, true, false, "a\255\n", nil)).to_be('[null,true,false,"a\\u00ff\\u000a",null]')
    expect(text(1, -2, 0.5, 1e300, 2 ^ 53)).to_be("[1,-2,0.5,1e+300,9.007199254741e+15]")
    expect(text({ 1, 2 }, {}, { a = { "b" } })).to_be('[[1,2],{},{"a":["b"]}]')
  end)

  it("that no JSON has become texts", function()
    expect(text(1 / 0, -1 / 0)).to_be('["inf","-inf"]')
    expect(text(0 / 0)).to_contain("nan")
    expect(text(print, coroutine.create(print))).to_be('["[function]","[thread]"]')
  end)

  it("keep the slots of a list with holes, in order", function()
    expect(text({ [1] = "a", [10] = "b", [2] = "c", x = "d" })).to_be('[{"1":"a","2":"c","10":"b","x":"d"}]')
    expect(text({ [2] = "b" })).to_be('[{"2":"b"}]')
    expect(text({ [true] = 1 })).to_be('[{"true":1}]')
  end)

  it("may hold themselves, and the same twice", function()
    local one = { 1 }
    expect(text({ one, one })).to_be("[[[1],[1]]]")
    one[2] = one
    expect(text(one)).to_be('[[1,"[the same table again]"]]')
  end)

  it("are cut where they are too deep, too long or too many, and it is said", function()
    local deep = {}
    for _ = 1, 20 do
      deep = { deep }
    end
    local found, cut = values.encode({ deep }, 1, 1)
    expect(found).to_contain("[a table, too deep to show]")
    expect(cut).to_be(true)
    found, cut = values.encode({ ("x"):rep(5000) }, 1, 1)
    expect(found).to_contain("x[904 more bytes]")
    expect(cut).to_be(true)
    local many = {}
    for index = 1, 5000 do
      many[index] = index
    end
    found, cut = values.encode({ many }, 1, 1)
    expect(found).to_contain('"[3000 more]"]]')
    expect(cut).to_be(true)
    many.x = 1
    expect((values.encode({ many }, 1, 1))).to_contain('"[cut]":"[')
    expect(json.decode((values.encode({ many }, 1, 1)), true) ~= nil).to_be(true)
    expect(select(2, values.encode({ 1 }, 1, 1))).to_be(false)
  end)

  it("are read with null, fractions and tables", function()
    local list = values.decode('[null,0.5,-1e2,"a",{"b":null,"c":[1]},null]')
    expect(list.n).to_be(6)
    expect(list[1]).to_be(nil)
    expect(list[2]).to_be(0.5)
    expect(list[3]).to_be(-100)
    expect(list[5]).to_be({ c = { 1 } })
    expect(json.is_array(list[5].c)).to_be(false)
    expect(list[6]).to_be(nil)
  end)

  it("that are no list are refused, and nobody else reads loosely", function()
    expect(select(2, values.decode("{}"))).to_be("it is something else")
    expect(select(2, values.decode("[1.2.3"))).to_contain("byte")
    expect(json.decode("[null]")).to_be(nil)
    expect(json.decode("[0.5]")).to_be(nil)
  end)
end)
