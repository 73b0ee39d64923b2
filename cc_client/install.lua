-- The installer of the cc-orchestrator client in one file. Made by scripts/bundle_client.py from cc_client/lua:
-- change those files, not this one.
local preload,loaded={},{}
local function require(name)
if loaded[name]==nil then
loaded[name]=preload[name]()
end
return loaded[name]
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
preload["install"]=function()







local disk=require("disk")
local installed=require("installed")
local programs=require("installer_programs")
local sha256=require("sha256")
local slots=require("slots")
local startups=require("startups")
local why=require("why")

local install={
SERVER="@SERVER@",
CLIENT={size=tonumber("@CLIENT_BYTES@"),sha256="@CLIENT_SHA256@",version="@CLIENT_VERSION@"},
}


local SPARE_BYTES=32768
local BIGGEST=3

local MAX_LABEL_BYTES=32
local OWN="/"..disk.OWN
local BOOT,CONNECTION=disk.OWN.."/boot.lua",disk.OWN.."/connection"
local ANSWER_WITHIN_S=2


local said={}

local function say(sentence)
said[#said+1]=sentence
print(sentence)
end


local function fail(sentence,...)
error(sentence:format(...),0)
end


local function fail_with(fault)
fail("%s",why.text(fault))
end

local function must(ok,problem,path)
if not ok then
fail(
"Cannot write %s: %s. Make room or mend the disk, then type the line again.",
path,
tostring(problem)
)
end
end




local function read_connection()
local text=disk.read(CONNECTION)or disk.read(CONNECTION..".new")
local url,token,name=(text or""):match("^[^\n]*\n(wss?://%S+)\n(%S+)\n([^\n]*)")
return url and{url=url,token=token,name=name}
end

local function check_computer(code,known)
local major,minor=tostring(_HOST):match("ComputerCraft (%d+)%.(%d+)")
major,minor=tonumber(major),tonumber(minor)
if major and(major<1 or major==1 and minor<95)then
fail("The client needs CC: Tweaked 1.95 or newer, and this is %s: update the mod.",_HOST)
end
local fault=why.here()
if fault then
fail_with(fault)
elseif code==""and not known then
fail(
"The code is missing: run `wget run %s/install CODE` with the code from `cc-orchestrator pair`.",
install.SERVER
)
end
end


local function all_files(directory,list)
for _,name in ipairs(fs.list(directory))do
local path=(directory=="/"and"/"or directory.."/")..name
if path~=OWN and fs.getDrive(path)==fs.getDrive("/")then
if fs.isDir(path)then
all_files(path,list)
else
list[#list+1]={path=path,size=fs.getSize(path)}
end
end
end
return list
end


local function biggest()
local list,texts=all_files("/",{}),{}
table.sort(list,function(left,right)
return left.size>right.size
end)
for index=1,math.min(BIGGEST,#list)do
texts[index]=("%s (%d bytes)"):format(list[index].path,list[index].size)
end
return#texts>0 and" The biggest are "..table.concat(texts,", ").."."or""
end


local function check_room(reclaimed)
local free=disk.free_bytes("/")+reclaimed
local needed=install.CLIENT.size+#programs.boot+#programs.cc+SPARE_BYTES
if free<needed then
local sentence=
"The disk of this computer is too full: delete files of %d bytes, then type the line again.%s"
fail(sentence,needed-free,biggest())
end
end




local function table_of(text)
local ok,value=pcall(textutils.unserializeJSON,text or"")
return ok and type(value)=="table"and value or nil
end


local function refusal(response)
local told=table_of(response.readAll())
response.close()
local wrong=told and told.error
if type(wrong)=="table"and type(wrong.message)=="string"then
return why.refused(install.SERVER,wrong)
end
end


local function body_of(response,problem,refused)
if refused then
fail_with(refusal(refused)or why.told("not_ours",install.SERVER))
elseif not response then
fail_with(why.failed(install.SERVER,problem))
end
local body=response.readAll()or""
response.close()
return body
end


local function hash(text)
local slices=0
return sha256.hex(text,function()
slices=slices+1

if slices%4==0 then
sleep(0)
end
end)
end

local function download()
local text=body_of(http.get(install.SERVER.."/client.lua",nil,true))
if#text~=install.CLIENT.size or hash(text)~=install.CLIENT.sha256 or not slots.is_whole(text)then
fail("The client did not arrive whole from %s: type the line again.",install.SERVER)
end
return text
end


local function is_known_here(known)
return known and known.url==install.SERVER:gsub("^http","ws").."/computer"
end


local SPENT={code_used=true,code_expired=true}



local function pair(code,known)
local label=(os.getComputerLabel())or""
local request=textutils.serializeJSON({
code=code,
computer_id=os.getComputerID(),
label=label:gsub("[^\32-\126]","?"):sub(1,64),
token=is_known_here(known)and known.token or nil,
})
local headers={["Content-Type"]="application/json"}
local response,problem,refused=http.post(install.SERVER.."/v1/pair",request,headers)
local fault=refused and(refusal(refused)or why.told("not_ours",install.SERVER))
if fault and SPENT[fault.code]and is_known_here(known)then
return nil,fault
elseif fault then
fail_with(fault)
end
local answer=table_of(body_of(response,problem))
if not answer or type(answer.token)~="string"or type(answer.url)~="string"then
fail_with(why.told("not_ours",install.SERVER))
end
return answer
end


local function tell_client(...)
local nonce=("%.0f"):format(os.epoch("utc"))
local timer=os.startTimer(ANSWER_WITHIN_S)
os.queueEvent("cc_orchestrator_ask",nonce,...)
while true do
local name,first=os.pullEvent()
if name=="cc_orchestrator_told"and first==nonce then
return true
elseif name=="timer"and first==timer then
return false
end
end
end




local function put(path,bytes)
if disk.read(path)~=bytes then
local ok,problem=disk.replace(path,bytes)
must(ok,problem,"/"..path)
end
end


local function put_client()
local pointer=slots.read()
local wanted=install.CLIENT.sha256
for _,slot in ipairs({"a","b"})do
local text=slots.text(slot)
if text and#text==install.CLIENT.size and hash(text)==wanted then
return pointer,slot
end
end
local slot=pointer and slots.other(pointer.slot)or slots.text("a")and"b"or"a"
local path=slots.path(slot)
check_room(#(disk.read(path)or""))
local text=download()
local ok,problem=disk.write(path,text)
if not ok or disk.read(path)~=text then
disk.try(fs.delete,path)
must(false,problem,"/"..path)
end
return pointer,slot
end


local function point_at(pointer,slot)
if pointer and pointer.slot==slot and not slots.is_bad(pointer,install.CLIENT.sha256)then
return false
end
local ok,problem=slots.write(slots.flipped(pointer,slot,install.CLIENT.sha256))
must(ok,problem,OWN.."/slot")
return true
end


local function is_same(known,pairing)
return known and known.url==pairing.url and(known.name==""or known.name==pairing.computer)
end

local function write_connection(pairing)
local head=
"-- cc-orchestrator: the server's URL, this computer's token, its name and its key. Keep it secret."
local lines={head,pairing.url,pairing.token,pairing.computer}
if type(pairing.update_key)=="string"and pairing.update_key:find("^%x+$")then
lines[#lines+1]=pairing.update_key
end
put(CONNECTION,table.concat(lines,"\n").."\n")
end


local function put_label(label)
if type(label)~="string"or label==""or(os.getComputerLabel())then
return
elseif#label>MAX_LABEL_BYTES or label:find("[^ -~]")then
say(
"The label of the code does not fit, so none was set. Up to 32 ASCII signs do: type `label set NAME`."
)
else
local record=installed.read()
installed.add(record,"label "..label)
local ok,problem=installed.write(record)
must(ok,problem,OWN.."/installed")
os.setComputerLabel(label)
end
end

local function put_startup()
local ok,place=pcall(startups.put)
must(ok,place,"the startup file")
if place.sentence then
say(place.sentence)
end
if place.move then
say(("Your %s is now %s, and still starts with the computer."):format(place.path,place.move))
end
if settings.get("shell.allow_startup")==false then
say("To start the client with the computer, type `set shell.allow_startup true`.")
end
for _,one in ipairs(startups.on_disks())do
local sentence="The disk in the drive %s (/%s) has a startup file, and the game starts that instead of the"
.." client: take the disk out, or type `set shell.allow_disk_startup false`."
say(sentence:format(one.drive,one.mount))
end
end



local function start_client()
local boot=assert(loadfile("/"..BOOT,nil,_ENV))
boot("--start",said)
end


local function socket_fault(connection)
local called,socket,problem=pcall(
http.websocket,
("%s?n=%.0f"):format(connection.url,os.epoch("utc")),
{Authorization="Bearer "..connection.token}
)
if called and socket then
pcall(socket.close)
else
return why.failed(connection.url,called and problem or socket)
end
end


local function join(code,known)
local pairing,spent=pair(code,known)
if not pairing then
print(spent.sentence.." The computer goes on with the token that it has.")
return known.name,true
end
local same=is_same(known,pairing)
if not same then

if known then
tell_client("-quit")
end
disk.try(fs.delete,disk.OWN.."/journal.a")
disk.try(fs.delete,disk.OWN.."/journal.b")
end
write_connection(pairing)
put_label(pairing.label)
return pairing.computer,same
end



local function bring(code,known)
local pointer,slot=put_client()
put(BOOT,programs.boot)
put(disk.OWN.."/cc.lua",programs.cc)
local is_new=point_at(pointer,slot)
if code==""then
return known.name,true,is_new
end
local name,same=join(code,known)
return name,same,is_new
end


local function bring_or_clear(code,known)
local ok,name,same,is_new=pcall(bring,code,known)
if ok then
return name,same,is_new
end
if not read_connection()and not fs.exists(disk.OWN.."/installed")then
disk.try(fs.delete,disk.OWN)
end
error(name,0)
end


function install.run(...)
said={}
local code,known=table.concat({...},""),read_connection()
check_computer(code,known)
local name,same,is_new=bring_or_clear(code,known)
put_startup()

local now=code~=""and"now"or nil
local runs=same and tell_client((is_new or now)and"-restart"or"status",now)
local sentence="This is computer %s of %s, with client %s. `cc help` says what you can do here."
say(sentence:format(name==""and os.getComputerID()or name,install.SERVER,install.CLIENT.version))
local fault=code~=""and socket_fault(read_connection())
if fault then
say("It cannot connect yet. "..why.text(fault))
end
if not runs then
start_client()
end
end

return install
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
preload["installer_programs"]=function()
return{boot=[==[
-- What starts the cc-orchestrator client in one file. Made by scripts/bundle_client.py from cc_client/lua:
-- change those files, not this one.
local preload,loaded={},{}
local function require(name)
if loaded[name]==nil then
loaded[name]=preload[name]()
end
return loaded[name]
end
preload["boot"]=function()









local disk=require("disk")
local slots=require("slots")
local trial=require("trial")

local boot={}

local SELF="/"..disk.OWN.."/boot.lua"
local TITLE="orchestrator"
local COMMAND="/"..disk.OWN.."/cc.lua"

local ASK,TOLD="cc_orchestrator_ask","cc_orchestrator_told"

local MAX_TRIES=2
local FIRST_DELAY_S,LAST_DELAY_S=5,60

local WELL_MS=60000

local MAX_SHELL_FAILURES,AT_ONCE_S=3,0.2




local function roll_back(pointer)
local other=slots.other(pointer.slot)
if not slots.text(other)then
return nil
end
local back={slot=other,state="good",tries=0,hash="-",bad=pointer.bad}
if pointer.state=="trial"and not slots.is_bad(pointer,pointer.hash)then
back.bad[#back.bad+1]=pointer.hash
end
slots.write(back)
return back
end


local function any_slot()
for _,slot in ipairs({"a","b"})do
if slots.text(slot)then
return{slot=slot,state="good",tries=0,hash="-",bad={}}
end
end
end



local function choose(given_up)
local pointer=slots.read()or any_slot()
if not pointer then
return nil
end
local on_trial=pointer.state=="trial"
if on_trial and(pointer.tries>=MAX_TRIES or given_up[pointer.hash])or not slots.text(pointer.slot)then
pointer=roll_back(pointer)or pointer
end
if pointer.state=="trial"then
pointer.tries=pointer.tries+1
slots.write(pointer)
end
return pointer,slots.text(pointer.slot)
end



local function run_slot(pointer,text,host)
local chunk=load(text,"@/"..slots.path(pointer.slot),"t",_ENV)
local handler=debug and debug.traceback or tostring
host.slot=pointer.slot
local function run()
return xpcall(chunk,handler,"--boot",host)
end
local ok,what,why
if pointer.state=="trial"then
ok,what,why=trial.run(pointer,run)
else
ok,what,why=run()
end
if not ok then
return"failed",tostring(what)
end
return what,why
end



local function wait(seconds,why)
local timer=os.startTimer(seconds)
while true do
local name,first,verb=os.pullEventRaw()
if name==ASK then
local what=why:match("^(.-)\nstack traceback:")or why
os.queueEvent(TOLD,first,"The client cannot run now, and tries again by itself: "..what,true)
end
if name==ASK and verb=="-quit"then
return true
elseif name=="timer"and first==timer or name==ASK and verb=="-restart"then
return false
end
end
end


local function is_on_trial(slot)
local pointer=slots.read()
return pointer~=nil and pointer.slot==slot and pointer.state=="trial"and pointer.hash
end



local function run_client(quiet)
local say=quiet and function()end or print
local host,given_up,delay_s,said={quiet=quiet},{},FIRST_DELAY_S,nil
while true do
local pointer,text=choose(given_up)
if not text then
return say("There is no whole client on this computer: run the installer again.")
end
local began_ms=os.epoch("utc")
local what,why=run_slot(pointer,text,host)
if what=="stopped"then
say(why or"The client has stopped.")
return host.is_told
end
host.failure=what~="restart"and tostring(why)or nil
if host.failure then
if why~=said then
said=why
say(host.failure)
end
local hash=is_on_trial(pointer.slot)
if hash and slots.text(slots.other(pointer.slot))then
given_up[hash]=true
else
delay_s=os.epoch("utc")-began_ms>WELL_MS and FIRST_DELAY_S or delay_s
if wait(delay_s,host.failure)then
return true
end
delay_s=math.min(LAST_DELAY_S,2*delay_s)
end
end
end
end



local function has_tabs()
return multishell~=nil and shell.openTab~=nil
end




local function lay_window()
if _G.cc_orchestrator or not window or not window.create then
return false
end
local parent=term.current()
local width,height=parent.getSize()
local view=window.create(parent,1,1,width,height,true)
term.redirect(view)
_G.cc_orchestrator={screen=view,parent=parent}
return true
end


local function lift_window()
local shared=_G.cc_orchestrator
if shared then
term.redirect(shared.parent)
_G.cc_orchestrator=nil
end
end


local function open_tab()
if not has_tabs()then
return false
end
local ok,id=pcall(shell.openTab,SELF)
if not ok or not id then
return false
end
pcall(multishell.setTitle,id,TITLE)
return true
end



local function keep_a_shell()
while true do
os.pullEventRaw()
if multishell.getCount()==1 then
local ok,id=pcall(shell.openTab,"shell")
if ok and id then
pcall(multishell.setFocus,id)
end
end
end
end


local function be_seen()
local seen=multishell.getFocus()
multishell.setFocus(multishell.getCurrent())
multishell.setFocus(seen)
end


local function beside(front)
parallel.waitForAny(function()
pcall(run_client,true)
while true do
os.pullEventRaw()
end
end,front)
end


local function run_shell()
local failures=0
repeat
local began_s=os.clock()
local left=shell.run("shell")
failures=os.clock()-began_s>AT_ONCE_S and 0 or failures+1
until left or failures>=MAX_SHELL_FAILURES
end


local function set_alias()
local meant=shell.resolveProgram("cc")
if not meant or"/"..fs.combine("",meant)==COMMAND then
shell.setAlias("cc",COMMAND)
end
end


local function rest_of_directory(ours)
local list={}
local names=fs.isDir("/startup")and fs.list("/startup")or{}
table.sort(names)
for _,name in ipairs(names)do
local path="/startup/"..name
if not fs.isDir(path)and(ours:find("^/startup/")==nil or path>ours)then
list[#list+1]=path
end
end
return list
end

local function run_all(programs)
for _,path in ipairs(programs)do
if fs.exists(path)and not fs.isDir(path)then
shell.run(path)
end
end
end


local function start_up(ours,own)
set_alias()
lay_window()
local function front()
run_all({own})
run_all(rest_of_directory(ours))
run_shell()
end
if open_tab()then
front()
else
beside(front)
end

if has_tabs()and multishell.getCount()>2 then
return shell.exit()
end
os.shutdown()
end



local function start(said)
set_alias()
local is_new=lay_window()
if is_new then
for _,sentence in ipairs(said or{})do
print(sentence)
end
end
local has_tab=open_tab()
if not has_tab then
beside(run_shell)
elseif is_new then
run_shell()
end
if is_new then
lift_window()
end
if not has_tab then
print("The client ran beside the shell that you left: `cc start` starts it again.")
end
end


function boot.run(mode,...)
if mode=="--startup"then
return start_up(...)
elseif mode=="--start"then
return start(...)
end
if multishell then
pcall(multishell.setTitle,multishell.getCurrent(),TITLE)
end
if not has_tabs()or multishell.getCount()==1 then
return run_client()
end
local is_told
parallel.waitForAny(function()
is_told=run_client()
end,keep_a_shell)
if is_told then
pcall(be_seen)
end
end

return boot
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
preload["slots"]=function()








local disk=require("disk")

local slots={}

local POINTER=disk.OWN.."/slot"
local HEAD,TAIL="cc-orchestrator slot 1\n","end\n"

local BEGINS,ENDS="-- The cc-orchestrator client",'return require("main").run(...)\n'

local MAX_BAD=8

function slots.path(slot)
return disk.OWN.."/client."..slot..".lua"
end

function slots.other(slot)
return slot=="a"and"b"or"a"
end


function slots.is_whole(text)
local framed=text and text:sub(1,#BEGINS)==BEGINS and text:sub(-#ENDS)==ENDS
return framed and load(text,"=client","t",{})~=nil
end


function slots.text(slot)
local text=disk.read(slots.path(slot))
return slots.is_whole(text)and text or nil
end

local function parse(text)
if not text or text:sub(1,#HEAD)~=HEAD or text:sub(-#TAIL)~=TAIL then
return nil
end
local slot,state,tries,hash=text:match("\nrun ([ab]) (%a+) (%d+) ([%x-]+)\n")
local pointer={slot=slot,state=state,tries=tonumber(tries),hash=hash,bad={}}
for bad in text:gmatch("\nbad (%x+)")do
pointer.bad[#pointer.bad+1]=bad
end
return slot and pointer
end


function slots.read()
return parse(disk.read(POINTER))or parse(disk.read(POINTER..".new"))
end


function slots.write(pointer)
local lines={("run %s %s %d %s\n"):format(pointer.slot,pointer.state,pointer.tries,pointer.hash)}
for index=math.max(1,#pointer.bad-MAX_BAD+1),#pointer.bad do
lines[#lines+1]="bad "..pointer.bad[index].."\n"
end
return disk.replace(POINTER,HEAD..table.concat(lines)..TAIL)
end


function slots.is_bad(pointer,hash)
for _,bad in ipairs(pointer.bad)do
if bad==hash then
return true
end
end
return false
end


function slots.flipped(pointer,slot,hash)
local state=slots.text(slots.other(slot))and"trial"or"good"
local new={slot=slot,state=state,tries=0,hash=hash,bad={}}
for _,bad in ipairs(pointer and pointer.bad or{})do
new.bad[#new.bad+1]=bad~=hash and bad or nil
end
return new
end

return slots
end
preload["trial"]=function()







local slots=require("slots")

local trial={}

local LOOK_EVERY_S=5

local MAX_LOOKS=12
local FAILED="The new client ran for 60 s without a welcome from its server, so it was ended."


local function look(pointer,looks)
local now=slots.read()
if not now or now.slot~=pointer.slot or now.state~="trial"then
return nil
end
looks=now.tries>=pointer.tries and looks+1 or 0
if looks>=MAX_LOOKS and not slots.text(slots.other(pointer.slot))then
return nil
end
return looks
end

local function wait_for_look(watch)
watch.timer=os.startTimer(LOOK_EVERY_S)
watch.due_ms=os.epoch("utc")+LOOK_EVERY_S*1000
end


local function is_due(watch,event)
return event[1]=="timer"and event[2]==watch.timer or os.epoch("utc")>=watch.due_ms
end



function trial.run(pointer,body)
local co,terminal=coroutine.create(body),term.current()
local watch={looks=0}
wait_for_look(watch)
local results=table.pack(coroutine.resume(co))
while coroutine.status(co)~="dead"do
local event,filter=table.pack(os.pullEventRaw()),results[2]
if not filter or event[1]==filter or event[1]=="terminate"then
results=table.pack(coroutine.resume(co,table.unpack(event,1,event.n)))
end
if watch.looks and coroutine.status(co)~="dead"and is_due(watch,event)then
watch.looks=look(pointer,watch.looks)
wait_for_look(watch)
end
if watch.looks==MAX_LOOKS then
term.redirect(terminal)
return true,"failed",FAILED
end
end
return table.unpack(results,2,results.n)
end

return trial
end
return require("boot").run(...)
]==],cc=[==[
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
local review=require("review")
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



local OWN_VERBS={start=start,uninstall=uninstall,review=review.run}


function cc.run(verb,...)
verb=verb or"help"
if OWN_VERBS[verb]then
return OWN_VERBS[verb](...)
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
preload["json"]=function()








local json={}


json.MAX_DEPTH=16

json.MAX_NUMBER=1e13


json.NULL=setmetatable({},{__name="json.null"})

local array_mark={__name="json.array"}

local is_loose=false


function json.array(list)
return setmetatable(list,array_mark)
end


function json.is_array(value)
return type(value)=="table"and getmetatable(value)==array_mark
end



local NAMED={['"']='\\"',["\\"]="\\\\"}

local function escape(char)
return NAMED[char]or string.format("\\u%04x",char:byte())
end

local function write_string(text)
return'"'..text:gsub('[%c"\\\127-\255]',escape)..'"'
end

local function write_number(number)
if number~=math.floor(number)or math.abs(number)>json.MAX_NUMBER then
error("json: not an integer within range: "..tostring(number),0)
end
return string.format("%.0f",number)
end

local write_value

local function write_list(list,out,depth)
out[#out+1]="["
for index=1,#list do
if index>1 then
out[#out+1]=","
end
write_value(list[index],out,depth)
end
out[#out+1]="]"
end

local function write_object(object,out,depth)
local keys={}
for key in pairs(object)do
if type(key)~="string"then
error("json: an object has a key that is no string",0)
end
keys[#keys+1]=key
end
table.sort(keys)
out[#out+1]="{"
for index,key in ipairs(keys)do
out[#out+1]=(index>1 and","or"")..write_string(key)..":"
write_value(object[key],out,depth)
end
out[#out+1]="}"
end

function write_value(value,out,depth)
local kind=type(value)
if depth==json.MAX_DEPTH and kind=="table"then
error("json: nested too deep",0)
end
if kind=="string"then
out[#out+1]=write_string(value)
elseif kind=="number"then
out[#out+1]=write_number(value)
elseif kind=="boolean"then
out[#out+1]=tostring(value)
elseif kind=="table"and(json.is_array(value)or value[1]~=nil)then
write_list(value,out,depth+1)
elseif kind=="table"then
write_object(value,out,depth+1)
else
error("json: cannot write a "..kind,0)
end
end


function json.encode(value)
local out={}
write_value(value,out,0)
return table.concat(out)
end




local SHORT={b="\b",f="\f",n="\n",r="\r",t="\t",['"']='"',["\\"]="\\",["/"]="/"}

local function fail(what,position)
error({json_error=what.." at byte "..position},0)
end

local function skip_blanks(text,position)
return text:find("[^ \t\r\n]",position)or#text+1
end

local function read_escape(text,position)
local letter=text:sub(position,position)
if SHORT[letter]then
return SHORT[letter],position+1
end
local hex=letter=="u"and text:match("^00(%x%x)",position+1)
if not hex then
fail("an escape that is not one byte",position)
end
return string.char(tonumber(hex,16)),position+5
end

local function read_string(text,position)
local parts={}
while true do
local stop=text:find('["\\\0-\31\128-\255]',position)
if not stop then
fail("a string without an end",position)
end
parts[#parts+1]=text:sub(position,stop-1)
local char=text:sub(stop,stop)
if char=='"'then
return table.concat(parts),stop+1
elseif char~="\\"then
fail("a byte that must be escaped",stop)
end
parts[#parts+1],position=read_escape(text,stop+1)
end
end

local function read_number(text,position)
if is_loose then
local digits=text:match("^%-?%d+%.?%d*[eE]?[+-]?%d*",position)
return tonumber(digits)or fail("a number that is none",position),position+#digits
end
local digits=text:match("^%-?%d+",position)
local after=position+#digits
if digits:find("^%-?0%d")or text:find("^[%.eE]",after)or#digits>15 then
fail("a number that is no plain integer",position)
end
local number=tonumber(digits)
if math.abs(number)>json.MAX_NUMBER then
fail("a number out of range",position)
end
return number,after
end

local read_value

local function read_list(text,position,depth)
local list=json.array({})
position=skip_blanks(text,position)
if text:sub(position,position)=="]"then
return list,position+1
end
while true do
list[#list+1],position=read_value(text,position,depth)
position=skip_blanks(text,position)
local char=text:sub(position,position)
if char=="]"then
return list,position+1
elseif char~=","then
fail("a list without comma or end",position)
end
position=position+1
end
end

local function read_member(text,position,object,depth)
position=skip_blanks(text,position)
if text:sub(position,position)~='"'then
fail("an object without a key",position)
end
local key,value
key,position=read_string(text,position+1)
position=skip_blanks(text,position)
if text:sub(position,position)~=":"or object[key]~=nil then
fail("a key without a value, or twice",position)
end
value,position=read_value(text,position+1,depth)
object[key]=value
return skip_blanks(text,position)
end

local function read_object(text,position,depth)
local object={}
position=skip_blanks(text,position)
if text:sub(position,position)=="}"then
return object,position+1
end
while true do
position=read_member(text,position,object,depth)
local char=text:sub(position,position)
if char=="}"then
return object,position+1
elseif char~=","then
fail("an object without comma or end",position)
end
position=position+1
end
end

function read_value(text,position,depth)
position=skip_blanks(text,position)
local char=text:sub(position,position)
if depth==json.MAX_DEPTH and char:find("[%[{]")then
fail("nesting too deep",position)
elseif char=='"'then
return read_string(text,position+1)
elseif char=="{"then
return read_object(text,position+1,depth+1)
elseif char=="["then
return read_list(text,position+1,depth+1)
elseif text:find("^%-?%d",position)then
return read_number(text,position)
elseif text:sub(position,position+3)=="true"then
return true,position+4
elseif text:sub(position,position+4)=="false"then
return false,position+5
elseif is_loose and text:sub(position,position+3)=="null"then
return json.NULL,position+4
end
return fail("no value",position)
end

local function read_whole(text)
local value,position=read_value(text,1,0)
if skip_blanks(text,position)<=#text then
fail("something after the end",position)
end
return value
end




function json.decode(text,loose)
is_loose=loose==true
local ok,value=pcall(read_whole,text)
is_loose=false
if ok then
return value
elseif type(value)=="table"and value.json_error then
return nil,value.json_error
end
return nil,tostring(value)
end

return json
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
preload["palette"]=function()



local palette={}


palette.GAME="f0f0f0f2b233e57fd899b2f2dede6c7fcc19f2b2cc4c4c4c"
.."9999994c99b2b266e53366cc7f664c57a64ecc4c4c111111"

local function digits(light)
light=type(light)=="number"and light==light and light or 0
return("%02x"):format(math.floor(math.max(0,math.min(1,light))*255+0.5))
end


function palette.light(index)
local at=index*6
local function part(first)
return tonumber(string.sub(palette.GAME,at+first,at+first+1),16)/255
end
return part(1),part(3),part(5)
end


function palette.of(terminal)
local grey=terminal.isColour and not terminal.isColour()
local get,parts=terminal.getPaletteColour,{}
for index=0,15 do
local ok,red,green,blue=pcall(get,2^index)
if not ok or type(blue)~="number"then
red,green,blue=palette.light(index)
end
if grey then
red=(red+green+blue)/3
green,blue=red,red
end
parts[index+1]=digits(red)..digits(green)..digits(blue)
end
return table.concat(parts)
end

return palette
end
preload["panel"]=function()





local palette=require("palette")

local panel={}

local COLOURS=
{added="lime",removed="red",hunk="cyan",title="yellow",alarm="red",keys="lightBlue"}

local DRAWN="cc_orchestrator_drawn"

local MOST_EVENTS=256

local LEAST_COLUMNS,LEAST_ROWS=20,8

local MOST_TYPED=400

panel.LEFT={}


local screen,monitor,width,height

local touched={}

local lights


function panel.size()
width,height=screen.getSize()
if not width then
error({says="The monitor "..monitor.." is gone. `cc review` shows what still waits."},0)
end
return width,height
end


local function has_changed()
local columns,rows=screen.getSize()
return columns~=width or rows~=height
end



function panel.open(name)
screen,monitor=term.current(),name
if name then
if not peripheral or peripheral.getType(name)~="monitor"then
return nil,"There is no monitor "..name.." at this computer."
end
screen=peripheral.wrap(name)
screen.setTextScale(1)
panel.size()
if width<39 or height<13 then
screen.setTextScale(0.5)
end
end
panel.size()
if width<LEAST_COLUMNS or height<LEAST_ROWS then
local sentence="The screen has %d x %d letters; %d x %d are needed."
return nil,sentence:format(width,height,LEAST_COLUMNS,LEAST_ROWS)
end
lights={}
for index=0,15 do
lights[index]={screen.getPaletteColour(2^index)}
end
return true
end


function panel.close()
if screen then
for index,light in pairs(lights)do
screen.setPaletteColour(2^index,table.unpack(light))
end
screen.setCursorBlink(false)
screen.clear()
screen.setCursorPos(1,1)
end
end

local function put(row,text,kind)
local colour=screen.isColour()and COLOURS[kind]
if colour then
screen.setTextColour(colors[colour])
end
screen.setCursorPos(1,row)
screen.write((text..(" "):rep(width)):sub(1,width))
if colour then
screen.setTextColour(colors.white)
end
end


function panel.wrapped(text)
local rows={""}
for word in text:gmatch("%S+")do
local longer=rows[#rows]==""and word or rows[#rows].." "..word
if#longer>width then
rows[#rows+1]=word
else
rows[#rows]=longer
end
end
return rows
end


local function set_colours()
for index=0,15 do
screen.setPaletteColour(2^index,palette.light(index))
end
screen.setBackgroundColour(colors.black)
screen.setTextColour(colors.white)
end


function panel.show(title,rows)
touched={}
set_colours()
screen.setCursorBlink(false)
screen.clear()
put(1,title,"title")
for index,row in ipairs(rows)do
put(index+1,row.text,row.is)
touched[index+1]=row.key and{{1,width,row.key}}or nil
end
end


local function labels_of(buttons)
local labels,size={},-1
for index,button in ipairs(buttons)do
labels[index],size=button[2],size+#button[2]+1
end
for turn=1,3 do
for index,button in ipairs(buttons)do
if size>width and button.goes==turn then
labels[index],size=button[2]:sub(1,3),size-#button[2]+3
end
end
end
return labels
end


local function put_buttons(row,buttons)
local labels,x=labels_of(buttons),1
touched[row]={}
for index,button in ipairs(buttons)do
table.insert(touched[row],{x,x+#labels[index]-1,button[1]})
x=x+#labels[index]+1
end
put(row,table.concat(labels," "),"keys")
end

local function at(x,y)
for _,area in ipairs(touched[y]or{})do
if x>=area[1]and x<=area[2]then
return area[3]
end
end
end


local function next_event()
while true do
if has_changed()then

return"resize","resize"
end
local name,first,second,third=os.pullEventRaw()
if name=="terminate"then
error(panel.LEFT,0)
elseif name=="char"or name=="paste"then
return name,first
elseif name=="key"then
local key=keys.getName(first)
return name,key=="numPadEnter"and"enter"or key
elseif name=="term_resize"and not monitor or name=="monitor_resize"and first==monitor then
return"resize","resize"
elseif name=="monitor_touch"and first==monitor or name=="mouse_click"and not monitor then
return"touch",at(second,third)
end
end
end


local function forget_keys()
local mark,seen=tostring(math.random(1000000))..os.clock(),0
repeat
if seen%MOST_EVENTS==0 then

os.queueEvent(DRAWN,mark)
end
seen=seen+1
local name,what=os.pullEventRaw()
if name=="terminate"then
error(panel.LEFT,0)
end
until name==DRAWN and what==mark
end


local STANDS_FOR={right="n",pageDown="n",enter="n",left="b",pageUp="b"}



function panel.choose(buttons,others)
put_buttons(height,buttons)
local known={}
for _,button in ipairs(buttons)do
known[button[1]]=true
end
forget_keys()
while true do
local name,what=next_event()
local key=name=="key"and STANDS_FOR[what]or name~="key"and what
key=key and key:lower()
if key and(known[key]or others and others[key]or name=="resize")then
return key
end
end
end


function panel.is_sure(question)
put(height-1,question,"alarm")
return panel.choose({{"y","[Y]es"},{"x","[X] no"}})=="y"
end

local function put_typed(typed,is_secret)
local seen=is_secret and("*"):rep(#typed)or typed
local room=width-3
put(height-1,"> "..seen:sub(-room))
screen.setCursorPos(math.min(#seen,room)+3,height-1)
screen.setCursorBlink(true)
end


local DIGITS={}
for digit in("1234567890"):gmatch(".")do
DIGITS[#DIGITS+1]={digit,digit}
end

local function put_question(question,is_secret)
local rows=panel.wrapped(question)
for index,text in ipairs(rows)do
put(height-2-#rows+index-1,text,"title")
end
put(height-2,"")
if is_secret and monitor then
put_buttons(height-2,DIGITS)
end
put_buttons(height,{{"enter","[Enter] sends"},{"tab","[Tab] back"}})
end


function panel.line(question,is_secret)
local typed=""
put_question(question,is_secret)
forget_keys()
while true do
put_typed(typed,is_secret)
local name,what=next_event()
if what=="enter"or what=="tab"then
screen.setCursorBlink(false)
return what=="enter"and typed or nil
elseif name=="key"and what=="backspace"then
typed=typed:sub(1,-2)
elseif name=="resize"then
panel.size()
panel.show("",{})
put_question(question,is_secret)
elseif name~="key"and what then
typed=(typed..what):sub(1,MOST_TYPED)
end
end
end

return panel
end
preload["review"]=function()






local json=require("json")
local panel=require("panel")

local review={}

local ASK,TOLD,LEFT="cc_orchestrator_ask","cc_orchestrator_told","cc_orchestrator_left"
local ANSWER_WITHIN_S=2

local LOST_AFTER_S=15
local OLD_CLIENT="The client here is older than its `cc`: type `cc update`."
local NO_CLIENT="The client does not answer: start it with `cc start`, or restart the computer."
local LOST="The answer was lost at this computer: `cc review` shows what still waits."

local GOES_ON=
{not_pending=true,expired=true,start_again=true,busy=true,invalid_decision=true}


local session

local function queue(verb,fields)
local nonce=("%.0f.%d"):format(os.epoch("utc"),math.random(1000000))
fields.session=session
os.queueEvent(ASK,nonce,"-review",verb,json.encode(fields))
return nonce
end


local function ask(verb,fields)
local nonce,timer,why=queue(verb,fields),os.startTimer(ANSWER_WITHIN_S),NO_CLIENT
while true do
local event,first,text,is_last,kind=os.pullEventRaw()
if event==TOLD and first==nonce then
if is_last and kind=="review"then
return json.decode(text)
elseif is_last then
local code=kind and kind:match("^refused (.+)$")
return nil,kind and text or OLD_CLIENT,code
end
timer,why=os.startTimer(LOST_AFTER_S),LOST
elseif event=="timer"and first==timer then
return nil,why
elseif event=="terminate"then
os.queueEvent(LEFT,nonce)
error(panel.LEFT,0)
end
end
end


local function stop(why)
error({says=why},0)
end


local function step(verb,fields)
local told,why,code=ask(verb,fields)
if not told and not GOES_ON[code]then
stop(why)
end
return told,why
end



local NEXT,BACK={"n","[N]ext",goes=2},{"b","[B]ack",goes=1}
local APPROVE,ANSWER={"a","[A]pprove",goes=3},{"a","[A]nswer",goes=3}
local REJECT,TO_LIST={"r","[R]eject",goes=2},{"l","[L]ist",goes=1}

local function buttons_of(entry,page)
local is_last,list=page.page==page.pages,{}
list[#list+1]=not is_last and NEXT or nil
list[#list+1]=page.page>1 and BACK or nil
if entry.task and entry.is=="asks"then
list[#list+1]=ANSWER
else
list[#list+1]=is_last and page.whole and APPROVE or nil
list[#list+1]=REJECT
end
list[#list+1]=TO_LIST
return list
end


local function decide(entry,page,action,text)
local fields={id=entry.id,digest=page.digest,nonce=page.nonce,action=action,text=text}
fields.task=entry.is=="asks"and entry.task or nil
local told,why=step("review_decide",fields)
return told and told.said or why
end

local function approve(entry,page)
return panel.is_sure("Approve all of it?")and decide(entry,page,"approve")or nil
end

local function reject(entry,page)
local reason=panel.line("Why? Or nothing.")
return reason and decide(entry,page,"reject",reason)
end

local function answer(entry,page)
local text=panel.line("The answer:")
return text and text~=""and decide(entry,page,"answer",text)or nil
end


local function page_of(entry,at,before)
local columns,rows=panel.size()
local wanted={id=entry.id,page=at,nonce=before and before.nonce,columns=columns,rows=rows}
wanted.task=entry.is=="asks"and entry.task or nil
local told,why=step("review_page",wanted)
if told then
told.columns,told.height=columns,rows
end
return told or why
end


local function key_at(entry,at,page)
local columns,height=panel.size()
if columns~=page.columns or height~=page.height then
return"resize"
end
local is_cut=at==page.pages and not page.whole
local title=is_cut and"Too long: decide it elsewhere"or entry.title
panel.show(("%d/%d %s"):format(at,page.pages,title),page.rows)
return panel.choose(buttons_of(entry,page),{q=true})
end


local function read(entry)
local pages,at={},1
while true do
pages[at]=pages[at]or page_of(entry,at,pages[at-1])
local page,said=pages[at],nil
if type(page)=="string"then
return page
end
local key=key_at(entry,at,page)
if key=="resize"then
pages,at={},1
elseif key=="n"then
at=at+1
elseif key=="b"then
at=at-1
elseif key=="l"or key=="q"then
return nil
elseif key=="r"then
said=reject(entry,page)
elseif entry.is=="asks"then
said=answer(entry,page)
else
said=approve(entry,page)
end
if said then
return said
end
end
end



local function outside(list)
return list.outside>0 and(" %d more outside the game."):format(list.outside)or""
end


local function rows_of(list,said)
local rows,known,_,height={},{q=true},panel.size()
local room=height-2
for _,text in ipairs(said and panel.wrapped(said)or{})do
rows[#rows+1]={text=text,is="alarm"}
end
for index,entry in ipairs(list.list)do
if#rows<room then
local key=tostring(index)
known[key]=true
rows[#rows+1]={text=("%s %s %s"):format(key,entry.is,entry.title),key=key}
end
end
return rows,known
end


local function lead(list)
local said
while#list.list>0 do
local rows,known=rows_of(list,said)
panel.show(("%d wait: type a number"):format(#list.list+list.more),rows)
local key=panel.choose({{"u","[U]pdate"},{"q","[Q]uit"}},known)
if key=="q"then
return""
end
if key~="resize"then
said=list.list[tonumber(key)]and read(list.list[tonumber(key)])
local told,why=step("review",{})
list,said=told or list,said or why
end
end
return(said and said.." "or"").."Nothing waits for "..list.person.."."..outside(list)
end


local function open(person)
local pin
while true do
local told,why,code=ask("review",{person=person,pin=pin})
if told then
session=told.session
return told
elseif code~="pin_wanted"and code~="wrong_pin"then
stop(why)
end
panel.show("cc review",{})
pin=panel.line(why,true)
if not pin then
return nil
end
end
end


function review.run(...)
local words={...}
local person=words[1]~="on"and words[1]or nil
local where=person and 2 or 1
local can_show,why=panel.open(words[where]=="on"and words[where+1]or nil)
if not can_show then
return printError(why)
end
local ok,said=pcall(function()
local list=open(person)
return list and lead(list)
end)
if session then
queue("review_end",{})
session=nil
end
panel.close()
if ok then
print(said or"")
elseif said~=panel.LEFT then
printError(type(said)=="table"and said.says or said)
end
end

return review
end
preload["sha256"]=function()






local band,bor,bxor=bit32.band,bit32.bor,bit32.bxor
local rrotate,rshift=bit32.rrotate,bit32.rshift

local sha256={}



sha256.SLICE_BYTES=2048

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
words[index]=bor(words[index-16]+s0+words[index-7]+s1)
end
end



local function compress(state,bytes,start)
spread(bytes,start)

local band,bor,bxor,rrotate,words,ROUND=band,bor,bxor,rrotate,words,ROUND
local a,b,c,d=state[1],state[2],state[3],state[4]
local e,f,g,h=state[5],state[6],state[7],state[8]
for index=1,64 do
local s1=bxor(rrotate(e,6),rrotate(e,11),rrotate(e,25))
local choice=band(e,f)+g-band(e,g)
local t1=h+s1+choice+ROUND[index]+words[index]
local s0=bxor(rrotate(a,2),rrotate(a,13),rrotate(a,22))
local differ=bxor(a,b)
local majority=(a+b-differ)/2+band(c,differ)
h,g,f,e,d,c,b,a=g,f,e,bor(d+t1),c,b,a,bor(t1+s0+majority)
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
busy={
"The orchestrator at {host} lets other computers in first.",
"It is dialled again by itself.",
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
return why.told(why.again_s(said)and"busy"or"stopping",url,said)
elseif status then
return why.told("no_upgrade",url,"it answers "..status)
end
return why.told("unknown",url,said)
end


function why.again_s(said)
return tonumber(tostring(said):match("retry after (%d%d?%d?) s"))
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
]==]}
end
preload["sha256"]=function()






local band,bor,bxor=bit32.band,bit32.bor,bit32.bxor
local rrotate,rshift=bit32.rrotate,bit32.rshift

local sha256={}



sha256.SLICE_BYTES=2048

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
words[index]=bor(words[index-16]+s0+words[index-7]+s1)
end
end



local function compress(state,bytes,start)
spread(bytes,start)

local band,bor,bxor,rrotate,words,ROUND=band,bor,bxor,rrotate,words,ROUND
local a,b,c,d=state[1],state[2],state[3],state[4]
local e,f,g,h=state[5],state[6],state[7],state[8]
for index=1,64 do
local s1=bxor(rrotate(e,6),rrotate(e,11),rrotate(e,25))
local choice=band(e,f)+g-band(e,g)
local t1=h+s1+choice+ROUND[index]+words[index]
local s0=bxor(rrotate(a,2),rrotate(a,13),rrotate(a,22))
local differ=bxor(a,b)
local majority=(a+b-differ)/2+band(c,differ)
h,g,f,e,d,c,b,a=g,f,e,bor(d+t1),c,b,a,bor(t1+s0+majority)
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
preload["slots"]=function()








local disk=require("disk")

local slots={}

local POINTER=disk.OWN.."/slot"
local HEAD,TAIL="cc-orchestrator slot 1\n","end\n"

local BEGINS,ENDS="-- The cc-orchestrator client",'return require("main").run(...)\n'

local MAX_BAD=8

function slots.path(slot)
return disk.OWN.."/client."..slot..".lua"
end

function slots.other(slot)
return slot=="a"and"b"or"a"
end


function slots.is_whole(text)
local framed=text and text:sub(1,#BEGINS)==BEGINS and text:sub(-#ENDS)==ENDS
return framed and load(text,"=client","t",{})~=nil
end


function slots.text(slot)
local text=disk.read(slots.path(slot))
return slots.is_whole(text)and text or nil
end

local function parse(text)
if not text or text:sub(1,#HEAD)~=HEAD or text:sub(-#TAIL)~=TAIL then
return nil
end
local slot,state,tries,hash=text:match("\nrun ([ab]) (%a+) (%d+) ([%x-]+)\n")
local pointer={slot=slot,state=state,tries=tonumber(tries),hash=hash,bad={}}
for bad in text:gmatch("\nbad (%x+)")do
pointer.bad[#pointer.bad+1]=bad
end
return slot and pointer
end


function slots.read()
return parse(disk.read(POINTER))or parse(disk.read(POINTER..".new"))
end


function slots.write(pointer)
local lines={("run %s %s %d %s\n"):format(pointer.slot,pointer.state,pointer.tries,pointer.hash)}
for index=math.max(1,#pointer.bad-MAX_BAD+1),#pointer.bad do
lines[#lines+1]="bad "..pointer.bad[index].."\n"
end
return disk.replace(POINTER,HEAD..table.concat(lines)..TAIL)
end


function slots.is_bad(pointer,hash)
for _,bad in ipairs(pointer.bad)do
if bad==hash then
return true
end
end
return false
end


function slots.flipped(pointer,slot,hash)
local state=slots.text(slots.other(slot))and"trial"or"good"
local new={slot=slot,state=state,tries=0,hash=hash,bad={}}
for _,bad in ipairs(pointer and pointer.bad or{})do
new.bad[#new.bad+1]=bad~=hash and bad or nil
end
return new
end

return slots
end
preload["startups"]=function()


















local disk=require("disk")
local installed=require("installed")
local sha256=require("sha256")

local startups={}

local MARK="-- cc-orchestrator: starts the client"
local FILE,LUA,DIRECTORY="/startup","/startup.lua","/startup"
local IN_DIRECTORY="/startup/00-cc-orchestrator.lua"

local TEXT=MARK
..[[, then what this computer started before. `cc uninstall` takes it away.
local boot = loadfile("/.cc-orchestrator/boot.lua", nil, _ENV)
  or loadfile("/.cc-orchestrator/boot.lua.new", nil, _ENV)
local own = %s
if boot then
  boot("--startup", "%s", own)
elseif own and fs.exists(own) then
  shell.run(own)
end
]]

local function begins_with(path,mark)
local bytes=not fs.isDir(path)and disk.read(path)
return bytes and bytes:sub(1,#mark)==mark
end

local function is_file(path)
return fs.exists(path)and not fs.isDir(path)
end


local function free_name()
local path,number="/startup_own.lua",1
while fs.exists(path)do
number=number+1
path=("/startup_own_%d.lua"):format(number)
end
return path
end


local function plan(record)
for _,path in ipairs({FILE,LUA,IN_DIRECTORY})do
local moved=installed.moved(record,path)
local is_half=moved and not fs.exists(path)and fs.exists(moved)
if begins_with(path,MARK)or is_half then
return{path=path,own=moved or path==FILE and LUA or nil}
end
end
if fs.isDir(DIRECTORY)and is_file(LUA)then
local to=free_name()
return{path=LUA,own=to,move=to}
elseif fs.isDir(DIRECTORY)then
return{path=IN_DIRECTORY}
elseif is_file(FILE)then
local to=fs.exists(LUA)and free_name()or LUA
return{path=FILE,own=to,move=to}
end
return{path=FILE,own=LUA}
end



function startups.on_disks()
local list={}
if not peripheral or not settings.get("shell.allow_disk_startup")then
return list
end
for _,name in ipairs(peripheral.getNames())do
local is_drive=peripheral.getType(name)=="drive"
local mount=is_drive and peripheral.call(name,"hasData")and peripheral.call(name,"getMountPath")
if mount and(fs.exists("/"..mount.."/startup")or is_file("/"..mount.."/startup.lua"))then
list[#list+1]={drive=name,mount=mount}
end
end
return list
end


local function is_known(record,path,text)
return disk.read(path)==text or installed.is_ours(record,path)
end

local function must(ok,why)
if not ok then
error(why,0)
end
end



function startups.put()
local record=installed.read()
local place=plan(record)
local text=TEXT:format(place.own and("%q"):format(place.own)or"nil",place.path)
if begins_with(place.path,MARK)and not is_known(record,place.path,text)then
place.sentence=place.path.." was changed by hand and is left as it is."
return place
end
installed.add(record,("made %s %s"):format(place.path,sha256.hex(text)))
if place.move then
installed.add(record,("moved %s %s"):format(place.path,place.move))
end
must(installed.write(record))
if disk.read(place.path)==text then
return place
end
local temporary=disk.OWN.."/startup.new"
must(disk.write(temporary,text))
if place.move then
must(disk.try(fs.move,place.path,place.move))
elseif fs.exists(place.path)then
must(disk.try(fs.delete,place.path))
end
must(disk.try(fs.move,temporary,place.path))
return place
end

return startups
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
busy={
"The orchestrator at {host} lets other computers in first.",
"It is dialled again by itself.",
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
return why.told(why.again_s(said)and"busy"or"stopping",url,said)
elseif status then
return why.told("no_upgrade",url,"it answers "..status)
end
return why.told("unknown",url,said)
end


function why.again_s(said)
return tonumber(tostring(said):match("retry after (%d%d?%d?) s"))
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
return require("install").run(...)
