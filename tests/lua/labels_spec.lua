local client = require("client")
local computer = require("computer")
local labels = require("labels")
local sha256 = require("sha256")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

--- A computer with a label, and a client on it that was welcome at a server that keeps labels, or at an older one.
local function labelled(label, is_old)
  local machine = computer.new()
  dofile("cc_client/simulator/rom/apis/text.lua")
  os.getComputerLabel = function()
    if label then
      return label
    end
  end
  os.setComputerLabel = function(new)
    label = new
  end
  labels.begin()
  local here = client.boot(machine):connect()
  here:receive({ type = "welcome", number = 5, computer = "alpha", labels = not is_old or nil })
  return here, machine
end

--- What was sent of labels and results, as `n=label` and the word `result`.
local function told(here)
  local list = {}
  for _, message in ipairs(here.sent) do
    if message.type == "label" then
      list[#list + 1] = ("%d=%s"):format(message.n, message.label or "")
    elseif message.type == "result" then
      list[#list + 1] = "result"
    end
  end
  return table.concat(list, " ")
end

local function run(here, source)
  local file = fs.open("p.lua", "wb")
  file.write(source)
  file.close()
  local params = { path = "p.lua", if_hash = sha256.hex(source), timeout_s = 10 }
  return here:call("r1", 5, "run_program", params)
end

describe("labels", function()
  it("are named in hello as they are then, not as they were at the start", function()
    local here, machine = labelled("farm")
    expect(here.sent[1].label).to_be("farm")
    os.setComputerLabel("reactor")
    local again = client.boot(machine):connect()
    expect(again.sent[1].label).to_be("reactor")
  end)

  it("that a program sets are told before its answer, also where it takes them back in one turn", function()
    local here = labelled("farm")
    local native = os.setComputerLabel
    run(here, "os.setComputerLabel('reactor') os.setComputerLabel(nil) os.setComputerLabel('farm')")
    expect(told(here)).to_be("1=reactor 2= 3=farm result")
    expect(os.setComputerLabel).to_be(native)
  end)

  it("that a program sets past its functions of text are told as they are", function()
    local here = labelled("farm")
    run(
      here,
      "string.sub = function() return 'farm' end os.getComputerLabel = string.sub "
        .. "os.setComputerLabel('reactor')"
    )
    expect(told(here)).to_be("1=reactor result")
  end)

  it("that somebody else sets are told with the next message, and at the next event", function()
    local here = labelled("farm")
    os.setComputerLabel("reactor")
    here:receive({ type = "ping", n = 1 })
    expect(here.sent[2].type).to_be("label")
    expect(here.sent[3].type).to_be("pong")
    os.setComputerLabel("house")
    here.session:tell_labels()
    expect(told(here)).to_be("1=reactor 2=house")
    here.session:tell_labels()
    expect(here:count("label")).to_be(2)
  end)

  it("are told again in the next session until the server keeps them", function()
    local here = labelled("farm")
    os.setComputerLabel("reactor")
    here.session:tell_labels()
    here.session:finish("gone")
    os.setComputerLabel("house")
    labels.look()
    os.setComputerLabel("farm")
    here:connect()
    expect(here.sent[1].label).to_be("farm")
    here:receive({ type = "welcome", number = 6, computer = "alpha", labels = true })
    here.session:tell_labels()
    expect(told(here)).to_be("1=reactor 2=house 3=farm")
    here:receive({ type = "label_kept", n = 2 })
    here:connect()
    here:receive({ type = "welcome", number = 7, computer = "alpha", labels = true })
    here.session:tell_labels()
    expect(told(here)).to_be("3=farm")
  end)

  it("are not told to a server that does not know them", function()
    local here = labelled("farm", true)
    os.setComputerLabel("reactor")
    here:receive({ type = "ping", n = 1 })
    expect(here:count("label")).to_be(0)
  end)

  it("that are very many stay few: the last of each", function()
    local here = labelled("farm")
    for index = 1, 100 do
      os.setComputerLabel("x" .. index % 60)
      labels.look()
    end
    here.session:tell_labels()
    expect(here:count("label")).to_be(40)
    expect(here:last_of("label").label).to_be("x40")
  end)
end)
