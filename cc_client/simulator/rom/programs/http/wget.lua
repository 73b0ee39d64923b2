--- Downloads a file, or runs what it downloads: `wget URL [file]`, `wget run URL [arguments]`.
local words = { ... }
local runs = words[1] == "run"
if runs then
  table.remove(words, 1)
end
local url = table.remove(words, 1)
if not url then
  print("Usage:")
  print("wget <url> [filename]")
  print("wget run <url>")
  return
elseif not http then
  printError("wget requires the http API, but it is not enabled")
  printError("Set http.enabled to true in CC: Tweaked's server config")
  return
end

local function name_in(address)
  return address:gsub("[#?].*", ""):gsub("/+$", ""):match("/([^/]+)$")
end

--- The text at the URL; nil after saying why there is none.
local function download()
  local permitted, why = http.checkURL(url)
  if not permitted then
    printError(why or "Invalid URL.")
    return nil
  end
  write("Connecting to " .. url .. "... ")
  local response = http.get(url)
  if not response then
    print("Failed.")
    return nil
  end
  print("Success.")
  local text = response.readAll()
  response.close()
  return text or ""
end

local function run()
  local text = download()
  if not text then
    return
  end
  local chunk, why = load(text, name_in(url), "t", _ENV)
  if not chunk then
    return printError(why)
  end
  local ok, problem = pcall(chunk, table.unpack(words))
  if not ok then
    printError(problem)
  end
end

local function save()
  local name = words[1] or name_in(url) or url
  local path = shell.resolve(name)
  if fs.exists(path) then
    return print("File already exists")
  end
  local text = download()
  if not text then
    return
  end
  local file, why = fs.open(path, "wb")
  if not file then
    return printError("Cannot save file: " .. why)
  end
  file.write(text)
  file.close()
  print("Downloaded as " .. name)
end

if runs then
  run()
else
  save()
end
