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
