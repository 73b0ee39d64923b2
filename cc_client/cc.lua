-- The command of the cc-orchestrator client in one file. Made by scripts/bundle_client.py from cc_client/lua:
-- change those files, not this one.
local preload,loaded={},{}
local function require(name)
if loaded[name]==nil then
loaded[name]=preload[name]()
end
return loaded[name]
end
preload["cc"]=function()







local disk=require("disk")
local installed=require("installed")
local pager=require("pager")
local shown=require("shown")
local diagnosis=require("why")

local cc={}

local ASK,TOLD,LEFT="cc_orchestrator_ask","cc_orchestrator_told","cc_orchestrator_left"
local ANSWER_WITHIN_S=2
local OWN="/"..disk.OWN


local function is_leaving(event)
return event[1]=="terminate"or event[1]=="char"and event[2]:lower()=="q"
end


local function tell_answer(tell,text,is_last,kind)
if is_last then
pager.run(function()
tell(text,kind)
end)
else
tell(text,kind)
end
end



local function ask(tell,...)
local nonce=("%.0f.%d"):format(os.epoch("utc"),math.random(1000000))
local heard,timer=false,os.startTimer(ANSWER_WITHIN_S)
os.queueEvent(ASK,nonce,...)
while true do
local event=table.pack(os.pullEventRaw())
if event[1]==TOLD and event[2]==nonce then
heard=true
if event[3]~=""then
tell_answer(tell,event[3],event[4],event[5])
end
if event[4]then
return true,false
end
elseif event[1]=="timer"and event[2]==timer and not heard then
return false
elseif is_leaving(event)then
os.queueEvent(LEFT,nonce)
return true,true
end
end
end

local function silent()end

local function start()
if ask(silent,"status")then
return print("The client runs already.")
end
local boot,why=loadfile(OWN.."/boot.lua",nil,_ENV)
if not boot then
return printError("The client cannot be started: "..tostring(why)..". Run the installer again.")
end
boot("--start")
end




local function directories()
local list={OWN}
for _,name in ipairs(fs.list("/"))do
local path="/"..name..OWN
if fs.isDir(path)and not fs.isReadOnly(path)and fs.getDrive(path)~=fs.getDrive("/")then
list[#list+1]=path
end
end
return list
end


local function kept_files(directory)
local kept,swap={},directory.."/swap"
for _,name in ipairs(fs.isDir(swap)and fs.list(swap)or{})do
kept[#kept+1]=name:find("%.old$")and swap.."/"..name or nil
end
return kept
end

local function delete(path,sentences)
local ok,why=disk.try(fs.delete,path)
if not ok then
sentences[#sentences+1]=("%s cannot be deleted: %s."):format(path,why)
end
end


local NEEDED={["boot.lua"]=true,["cc.lua"]=true,["installed"]=true,["installed.new"]=true}



local function empty_directory(directory,sentences)
local kept=kept_files(directory)
for _,path in ipairs(kept)do
sentences[#sentences+1]=path.." is left: nobody knows whether a change that used it was made."
end
for _,name in ipairs(fs.isDir(directory)and fs.list(directory)or{})do
local path=directory.."/"..name
local is_needed=directory==OWN and NEEDED[name]
if not is_needed and(#kept==0 or name~="swap")then
delete(path,sentences)
end
end
for _,name in ipairs(#kept>0 and fs.list(directory.."/swap")or{})do
if not name:find("%.old$")then
delete(directory.."/swap/"..name,sentences)
end
end
return#kept>0
end


local function name_here()
local text=disk.read(OWN.."/connection")or disk.read(OWN.."/connection.new")or""
local name=text:match("^[^\n]*\n[^\n]*\n[^\n]*\n([^\n]+)")
return name or"NAME"
end



local function uninstall()
print(("If this is cut short, type `cc uninstall` again, or `%s/cc.lua uninstall`."):format(OWN))
ask(silent,"-quit")
local sentences,name,is_kept={},name_here(),{}
for _,directory in ipairs(directories())do
is_kept[directory]=empty_directory(directory,sentences)
if directory~=OWN and not is_kept[directory]then
delete(directory,sentences)
end
end
for _,sentence in ipairs(installed.undo(installed.read()))do
sentences[#sentences+1]=sentence
end
for _,file in ipairs({"boot.lua","installed.new","installed"})do
delete(OWN.."/"..file,sentences)
end
delete(is_kept[OWN]and OWN.."/cc.lua"or OWN,sentences)
shell.clearAlias("cc")
_G.cc_orchestrator=nil
for _,sentence in ipairs(sentences)do
print(sentence)
end
local last=
"The client is gone from this computer. Its token is worth something until you type on the server:"
print(last)
print("cc-orchestrator token revoke computer "..name)
end



local OWN_VERBS={start=start,uninstall=uninstall}


function cc.run(verb,...)
verb=verb or"help"
if OWN_VERBS[verb]then
return OWN_VERBS[verb]()
end
local answered,has_left=ask(shown.tell,verb,...)
shown.finish(has_left)
if not answered then
local fault=diagnosis.here()
if fault then
return printError(diagnosis.text(fault))
end
printError("The client does not answer: start it with `cc start`, or restart the computer.")
end
end

return cc
end
preload["disk"]=function()






local disk={}


disk.OWN=".cc-orchestrator"


function disk.try(operation,...)
local results=table.pack(pcall(operation,...))
if results[1]then
return true,table.unpack(results,2,results.n)
end
return nil,tostring(results[2])
end

local function close(handle)
return disk.try(handle.close)
end


function disk.read(path)
local ok,handle,message=disk.try(fs.open,path,"rb")
if not ok then
return nil,handle
elseif not handle then
return nil,message or"cannot open"
end
local read,bytes=disk.try(handle.readAll)
close(handle)
if not read then
return nil,bytes
end

return bytes or""
end


function disk.write(path,bytes)
local ok,handle,message=disk.try(fs.open,path,"wb")
if not ok then
return nil,handle
elseif not handle then
return nil,message or"cannot open"
end
local written,why=disk.try(handle.write,bytes)
local closed,why_not=close(handle)
if not written or not closed then
return nil,why or why_not
end
local sized,size=disk.try(fs.getSize,path)
if not sized or size~=#bytes then
return nil,"the file is shorter than what was written"
end
return true
end


function disk.replace(path,bytes)
local temporary=path..".new"
local ok,why=disk.write(temporary,bytes)
if ok then
ok,why=disk.try(fs.delete,path)
end
if ok then
ok,why=disk.try(fs.move,temporary,path)
end
return ok,why
end


function disk.free_bytes(path)
local ok,free=disk.try(fs.getFreeSpace,path)
if ok and type(free)=="number"then
return free
end
return ok and math.huge or 0
end

return disk
end
preload["installed"]=function()







local disk=require("disk")
local sha256=require("sha256")

local installed={}

local RECORD=disk.OWN.."/installed"
local HEAD,TAIL="cc-orchestrator installed 1\n","end\n"


function installed.add(record,line)
for _,old in ipairs(record)do
if old==line then
return
end
end
record[#record+1]=line
end

local function parse(text)
if not text or text:sub(1,#HEAD)~=HEAD or text:sub(-#TAIL)~=TAIL then
return nil
end
local record={}
for line in text:sub(#HEAD+1,-#TAIL-1):gmatch("[^\n]+")do
record[#record+1]=line
end
return record
end


function installed.read()
return parse(disk.read(RECORD))or parse(disk.read(RECORD..".new"))or{}
end


function installed.write(record)
local lines=#record>0 and table.concat(record,"\n").."\n"or""
return disk.replace(RECORD,HEAD..lines..TAIL)
end


function installed.is_ours(record,path)
local bytes=disk.read(path)
local wanted=bytes and("made %s %s"):format(path,sha256.hex(bytes))
for _,line in ipairs(record)do
if line==wanted then
return true
end
end
return false
end


function installed.moved(record,path)
for _,line in ipairs(record)do
local from,to=line:match("^moved (%S+) (%S+)$")
if from==path then
return to
end
end
end


local function unmake(record,path)
if not fs.exists(path)or fs.isDir(path)then
return nil
elseif not installed.is_ours(record,path)then
return path.." was changed since, so it is left."
end
local ok,why=disk.try(fs.delete,path)
return not ok and("%s cannot be deleted: %s."):format(path,why)or nil
end


local function move_back(from,to)
if not fs.exists(to)then
return nil
elseif fs.exists(from)then
return("%s is left at %s, because something else is at %s."):format("Your program",to,from)
end
local ok,why=disk.try(fs.move,to,from)
return not ok and("%s cannot be moved back to %s: %s."):format(to,from,why)or nil
end

local function undo_line(record,line)
local path=line:match("^made (%S+) ")
local from,to=line:match("^moved (%S+) (%S+)$")
local label=line:match("^label (.*)$")
if path then
return unmake(record,path)
elseif from then
return move_back(from,to)
elseif label and(os.getComputerLabel())==label then
os.setComputerLabel(nil)
end
end


function installed.undo(record)
local said,list={},{}
for _,kind in ipairs({"made","moved","label"})do
for _,line in ipairs(record)do
local sentence=line:find("^"..kind.." ")and undo_line(record,line)
if sentence and not said[sentence]then
said[sentence]=true
list[#list+1]=sentence
end
end
end
return list
end

return installed
end
preload["pager"]=function()





local pager={}

local PROMPT="-- more: Enter, q leaves"

local LEFT={}



local function wait_for_key()
while true do
local name,what=os.pullEventRaw()
if name=="terminate"or name=="char"and what:lower()=="q"then
error(LEFT,0)
elseif name=="char"or name=="key"and what==keys.enter then
return
end
end
end


local function ask_for_more(screen)
local width=screen.getSize()
local column,row=screen.getCursorPos()
screen.setCursorPos(1,row)
screen.write(PROMPT:sub(1,width-1))
local ok,why=pcall(wait_for_key)
screen.clearLine()
screen.setCursorPos(column,row)
if not ok then
error(why,0)
end
end


local function paged(screen)
local view=setmetatable({},{__index=screen})
local _,first_row=screen.getCursorPos()
local left=first_row-1
function view.scroll(rows)
screen.scroll(rows)
left=left-rows
if left<=0 then
ask_for_more(screen)
local _,height=screen.getSize()
left=height-1
end
end
return view
end



function pager.run(body)
local screen=term.current()
term.redirect(paged(screen))
local ok,why=pcall(body)
term.redirect(screen)
if not ok and why~=LEFT then
error(why,0)
end
return ok
end

return pager
end
preload["sha256"]=function()






local band,bnot,bxor=bit32.band,bit32.bnot,bit32.bxor
local rrotate,rshift=bit32.rrotate,bit32.rshift

local sha256={}


sha256.SLICE_BYTES=8192

local WORD=4294967296
local INITIAL,ROUND={},{}


local function fraction_bits(root)
return math.floor((root%1)*WORD)
end

local function fill_constants()
local found,candidate=0,2
while found<64 do
local prime=true
for divisor=2,math.floor(candidate^0.5)do
prime=prime and candidate%divisor~=0
end
if prime then
found=found+1
ROUND[found]=fraction_bits(candidate^(1/3))
if found<=8 then
INITIAL[found]=fraction_bits(candidate^0.5)
end
end
candidate=candidate+1
end
end
fill_constants()

local words={}

local function spread(bytes,start)
for index=1,16 do
local a,b,c,d=bytes:byte(start,start+3)
words[index]=((a*256+b)*256+c)*256+d
start=start+4
end
for index=17,64 do
local w15,w2=words[index-15],words[index-2]
local s0=bxor(rrotate(w15,7),rrotate(w15,18),rshift(w15,3))
local s1=bxor(rrotate(w2,17),rrotate(w2,19),rshift(w2,10))
words[index]=(words[index-16]+s0+words[index-7]+s1)%WORD
end
end

local function compress(state,bytes,start)
spread(bytes,start)
local a,b,c,d=state[1],state[2],state[3],state[4]
local e,f,g,h=state[5],state[6],state[7],state[8]
for index=1,64 do
local s1=bxor(rrotate(e,6),rrotate(e,11),rrotate(e,25))
local choice=bxor(band(e,f),band(bnot(e),g))
local t1=h+s1+choice+ROUND[index]+words[index]
local s0=bxor(rrotate(a,2),rrotate(a,13),rrotate(a,22))
local majority=bxor(band(a,b),band(a,c),band(b,c))
h,g,f,e,d,c,b=g,f,e,(d+t1)%WORD,c,b,a
a=(t1+s0+majority)%WORD
end
state[1],state[2]=(state[1]+a)%WORD,(state[2]+b)%WORD
state[3],state[4]=(state[3]+c)%WORD,(state[4]+d)%WORD
state[5],state[6]=(state[5]+e)%WORD,(state[6]+f)%WORD
state[7],state[8]=(state[7]+g)%WORD,(state[8]+h)%WORD
end

local function padding(length)
local zeros=(55-length)%64
local bits,tail=length*8,{}
for index=8,1,-1 do
tail[index]=string.char(bits%256)
bits=math.floor(bits/256)
end
return"\128"..("\0"):rep(zeros)..table.concat(tail)
end

local function absorb(state,bytes,pause)
for start=1,#bytes-63,64 do
compress(state,bytes,start)
if pause and(start+63)%sha256.SLICE_BYTES==0 then
pause()
end
end
end



function sha256.hex(bytes,pause)
local state={table.unpack(INITIAL)}
absorb(state,bytes,pause)
local rest=bytes:sub(#bytes-#bytes%64+1)
absorb(state,rest..padding(#bytes),nil)
return(("%08x"):rep(8)):format(table.unpack(state))
end


local function padded(key,mix)
local list={}
for index=1,64 do
list[index]=string.char(bxor(key:byte(index)or 0,mix))
end
return table.concat(list)
end


function sha256.hmac(key,text)
local digest=sha256.hex(padded(key,54)..text):gsub("%x%x",function(pair)
return string.char(tonumber(pair,16))
end)
return sha256.hex(padded(key,92)..digest)
end

return sha256
end
preload["shown"]=function()







local shown={}

local COLOURS={
tool="cyan",
out="lightGray",
wait="yellow",
ask="yellow",
note="lightBlue",
good="lime",
bad="red",
doing="gray",
}

local MARKS={tool="> ",wait="* ",ask="? ",bad="! "}
local AFTER={ask="It waits, for days too: q, then cc answer TEXT"}


local task,has_doing

local function in_colour(kind,body)
local colour=term.isColour()and COLOURS[kind]
if not colour then
return body()
end
local before=term.getTextColour()

term.setTextColour(colors[colour])
body()
term.setTextColour(before)
end

local function clear_doing()
if has_doing then
local _,row=term.getCursorPos()
term.setCursorPos(1,row)
term.clearLine()
has_doing=false
end
end

local function one(kind,text)
clear_doing()
in_colour(kind,function()
if kind=="doing"then
local width=term.getSize()
write((text.." ..."):sub(1,width-1))
has_doing=true
else
print((term.isColour()and""or MARKS[kind]or"")..text)
end
end)
if AFTER[kind]and task then
one("note",AFTER[kind])
end
end


function shown.tell(text,kind)
if kind=="task"then
task=text
one("note",("Task %s: q leaves, and it goes on."):format(text))
elseif kind=="lines"then
for line in(text.."\30"):gmatch("([^\30]*)\30")do
local is,rest=line:match("^(%l+):(.*)$")
one(is,rest or line)
end
else
one(kind,text)
end
end


function shown.finish(has_left)
clear_doing()
if has_left and task then
print(("The task goes on. `cc watch %s` shows it again."):format(task))
end
task=nil
end

return shown
end
preload["why"]=function()







local why={}


local USUAL_PORT="8765"
local PORTS={http="80",https="443",ws="80",wss="443"}
local LOOPBACK={localhost=true,["::1"]=true}
local FILE="computercraft-server.toml"
local FOLDER="the folder serverconfig of the world"
local SET="Set in "..FILE..", which is in "..FOLDER.." (new versions: config):"
local RULE="Put into "..FILE.." ("..FOLDER..', or config), before the rule for "$private":'
local RESTART="Then restart the Minecraft server."
local PLAIN=
"cc-orchestrator serve --host 0.0.0.0 --insecure-bind --port {plain} --public-url http://ADDRESS:{plain}"
local NEW_LINE="Then type a new line of `cc-orchestrator pair`."
local NEW_CODE="Make a new one with `cc-orchestrator pair` and type its line here."
local INSTALL="wget run {server}/install"


local TROUBLES={
http_off={"HTTP is turned off on the Minecraft server.",SET,"[http]","enabled = true",RESTART},
websockets_off={
"WebSockets are turned off on the Minecraft server.",
SET,
"[http]",
"websocket_enabled = true",
RESTART,
},
not_permitted={
"The Minecraft server does not permit computers to reach {host}.",
RULE,
"[[http.rules]]",
'host = "{host}"',
"port = {port}",
'action = "allow"',
RESTART,
},
unknown_host={
"The Minecraft server knows no host {host}.",
"Give the orchestrator an address that it knows, such as its IP, on a network that you trust:",
PLAIN,
NEW_LINE,
},
no_answer={
"Nothing answers at {host}, port {port}.",
"Start it there, for a network that you trust:",
"cc-orchestrator serve --host 0.0.0.0 --insecure-bind --port {port} --public-url {server}",
"Let port {port} through its firewall.",
},
no_answer_tls={
"Nothing answers at {host}, port {port}.",
"Start the proxy there that has the certificate, and behind it:",
"cc-orchestrator serve --public-url {server}",
"Let port {port} through its firewall.",
},
no_answer_here={
"Nothing answers at port {port} of the machine on which the Minecraft server runs.",
"Start it there:",
"cc-orchestrator serve --port {port}",
"If it runs on another machine, `cc-orchestrator doctor` there says what to do.",
},
timed_out={
"{host}, port {port}, did not answer in time.",
"Let port {port} through the firewall of {host}.",
"If the address is wrong, type a new line of `cc-orchestrator pair`.",
},
tls={
"The Minecraft server does not trust the certificate of {host}.",
"Give it one that Java trusts, or use http on a network that you trust:",
PLAIN,
NEW_LINE,
},
code_used={"This pairing code was used already.",NEW_CODE},
code_expired={"This pairing code is older than 15 minutes.",NEW_CODE},
code_unknown={"This pairing code is not known here.",NEW_CODE},
protocol_too_old={"{said}","{remedy}",INSTALL},
protocol_too_new={"{said}","{remedy}","Or get its older client:",INSTALL},
mod_too_old={"{said}","{remedy}"},
frozen={"{said}","{remedy}"},
token_refused={
"The orchestrator at {host} does not know this computer: its token was revoked, or is another server's.",
"Pair it again: type a new line of `cc-orchestrator pair`.",
},
not_ours={
"What answers at {host}, port {port}, is not cc-orchestrator.",
"If the address is wrong, type a new line of `cc-orchestrator pair`.",
},
stopping={
"The orchestrator at {host} stops or starts just now.",
"It is dialled again by itself.",
},
no_upgrade={
"{host}, port {port}, takes no WebSocket ({said}).",
"Let the proxy in between pass WebSockets on.",
},
bad_address={
"{server} is no address ({said}).",
"Type the line exactly as `cc-orchestrator pair` prints it.",
},
too_many={
"This computer has too many connections open.",
"End the programs that have them, or restart it: hold Ctrl-R.",
},
ended={"The connection ended: {said}.","It is dialled again by itself."},
unknown={
"The connection failed: {said}.",
"`cc-orchestrator doctor`, on the orchestrator's machine, says what it sees.",
},
}


local SAID={
{"websocket connections are disabled","websockets_off"},
{"domain not permitted","not_permitted"},
{"unknown host","unknown_host"},
{"timed out","timed_out"},
{"secure connection","tls"},
{"certificate","tls"},
{"already open","too_many"},
{"too many ongoing","too_many"},
{"url malformed","bad_address"},
{"invalid scheme","bad_address"},
{"invalid protocol","bad_address"},
{"must specify http","bad_address"},
{"invalid subprotocol","not_ours"},
{"could not connect","no_answer"},
{"connection refused","no_answer"},
}

local MAX_SAID=400


local function plain(text)
return(tostring(text):gsub("[^\32-\126]+"," "):sub(1,MAX_SAID):gsub("%s+$",""))
end

local function places(url)
local scheme,rest=url:match("^(%a+)://([^/?#]*)")
scheme,rest=scheme or"http",rest or url
local host,port=rest:match("^%[([%x:.]+)%]:?(%d*)$")
if not host then
host,port=rest:match("^([^:]*):?(%d*)$")
end
port=port~=""and port or PORTS[scheme]or""
local is_tls=scheme=="https"or scheme=="wss"
return{
host=host or rest,
port=port,
plain=is_tls and USUAL_PORT or port,
is_tls=is_tls,
server=scheme:gsub("^ws","http").."://"..rest,
}
end






function why.told(code,url,said,remedy)
local words=places(url or"")
if code=="no_answer"and(LOOPBACK[words.host]or words.host:find("^127%."))then
code="no_answer_here"
elseif code=="no_answer"and words.is_tls then
code="no_answer_tls"
end
words.said,words.remedy=plain(said or""),plain(remedy or"")
local lines={}
for _,text in ipairs(TROUBLES[code])do
if text~="{remedy}"or words.remedy~=""then
lines[#lines+1]=text:gsub("{(%l+)}",words)
end
end
return{code=code,sentence=table.remove(lines,1),remedy=lines}
end


function why.here()
if not http then
return why.told("http_off")
elseif not http.websocketAsync then
return why.told("websockets_off")
end

local called,said=pcall(http.websocketAsync,"ws://")
if not called and tostring(said):lower():find("disabled",1,true)then
return why.told("websockets_off")
end
end


function why.failed(url,said)
said=plain(said or"no answer")
local small=said:lower()
for _,entry in ipairs(SAID)do
if small:find(entry[1],1,true)then
return why.told(entry[2],url,said)
end
end
local status=tonumber(small:match("status%D*(%d%d%d)"))
if status==401 or status==403 then
return why.told("token_refused",url,said)
elseif status==404 then
return why.told("not_ours",url,said)
elseif status==503 then
return why.told("stopping",url,said)
elseif status then
return why.told("no_upgrade",url,"it answers "..status)
end
return why.told("unknown",url,said)
end


function why.refused(url,wrong)
local message,remedy=plain(wrong.message),plain(wrong.remedy or"")
if TROUBLES[wrong.code]then
return why.told(wrong.code,url,message,remedy)
end
return{code=tostring(wrong.code),sentence=message,remedy=remedy~=""and{remedy}or{}}
end


function why.text(fault)
local lines={fault.sentence}
for _,line in ipairs(fault.remedy)do
lines[#lines+1]=line
end
return table.concat(lines,"\n")
end

return why
end
return require("cc").run(...)
