local sha256 = require("sha256")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

describe("sha256", function()
  it("gives the NIST vectors", function()
    expect(sha256.hex("")).to_be("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    expect(sha256.hex("abc")).to_be("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    expect(sha256.hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")).to_be(
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    )
    expect(sha256.hex(("a"):rep(1000000))).to_be(
      "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
    )
  end)

  it("makes the HMACs of RFC 4231", function()
    expect(sha256.hmac(("\11"):rep(20), "Hi There")).to_be(
      "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    )
    expect(sha256.hmac("Jefe", "what do ya want for nothing?")).to_be(
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )
  end)

  it("is right around the end of a block", function()
    expect(sha256.hex(("a"):rep(55))).to_be(
      "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"
    )
    expect(sha256.hex(("a"):rep(56))).to_be(
      "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"
    )
    expect(sha256.hex(("a"):rep(64))).to_be(
      "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"
    )
  end)

  it("pauses after every slice, and two hashes may go on in turn", function()
    local pauses = 0
    local function hash(text)
      return coroutine.wrap(function()
        return sha256.hex(text, function()
          pauses = pauses + 1
          coroutine.yield()
        end)
      end)
    end
    local left, right = hash(("x"):rep(3 * 2048)), hash(("y"):rep(3 * 2048))
    local one, two
    for _ = 1, 4 do
      one, two = left(), right()
    end
    expect(pauses).to_be(6)
    expect(one).to_be(sha256.hex(("x"):rep(3 * 2048)))
    expect(two).to_be(sha256.hex(("y"):rep(3 * 2048)))
  end)
end)
