// What the page knows of each tool, drawn from the records by scripts/docs.py.
export const TOOLS = {
  send_status: {
    example: {"message": "I read the program."},
  },
  ask_user: {
    example: {"question": "Which chest?"},
  },
  cc_read: {
    example: {"path": "startup.lua"},
  },
  cc_list: {
    example: {"path": ""},
  },
  cc_find: {
    example: {"pattern": "**"},
  },
  cc_info: {
    example: {},
  },
  cc_docs: {
    example: {"query": "turtle"},
  },
  cc_screen: {
    example: {"of": ""},
  },
  cc_peripheral_call: {
    example: {"name": "left", "method": "list", "args": []},
  },
  cc_label: {
    example: {"label": "farm"},
  },
  cc_write: {
    example: {"path": "startup.lua", "content": "print('hello')\n"},
    texts: ["content"],
    edits: "content",
  },
  cc_edit: {
    example: {"path": "startup.lua", "old": "hello", "new": "bye"},
    texts: ["old", "new"],
    edits: "new",
  },
  cc_move: {
    example: {"path": "a.lua", "to": "b.lua"},
  },
  cc_mkdir: {
    example: {"path": "lib"},
  },
  cc_delete: {
    example: {"path": "old.lua"},
  },
  cc_run_program: {
    example: {"path": "count.lua", "args": []},
    runs: true,
  },
  cc_shell: {
    example: {"command": "ls"},
    edits: "command",
    runs: true,
  },
  cc_stop: {
    example: {"tab": "tab-1"},
  },
  local_read: {
    example: {"path": "notes.txt"},
  },
  local_write: {
    example: {"path": "notes.txt", "content": ""},
    texts: ["content"],
    edits: "content",
  },
  local_patch: {
    example: {"path": "notes.txt", "patch": ""},
    texts: ["patch"],
    edits: "patch",
  },
};
