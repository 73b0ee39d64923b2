BEGIN TRANSACTION;
CREATE TABLE agreed (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE backups (
        backup_id TEXT PRIMARY KEY,
        computer TEXT NOT NULL,
        made_at BIGINT NOT NULL,
        made_by TEXT NOT NULL,
        data TEXT NOT NULL
    );
CREATE TABLE blob_marks (
        sha256 TEXT PRIMARY KEY,
        size BIGINT NOT NULL,
        lists SMALLINT NOT NULL,
        touched BIGINT NOT NULL
    );
INSERT INTO "blob_marks" VALUES('d35c416a85b807e9b5384915d6ebb4a9f7352713efd89857b45a242f473728a9',5,1,0);
CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, content BYTEA NOT NULL);
INSERT INTO "blobs" VALUES('d35c416a85b807e9b5384915d6ebb4a9f7352713efd89857b45a242f473728a9',X'6C61726765');
CREATE TABLE computers (computer TEXT PRIMARY KEY, number BIGINT NOT NULL, task TEXT, heard BIGINT NOT NULL DEFAULT 0, doubtful_below BIGINT NOT NULL DEFAULT 0, known TEXT, token TEXT NOT NULL DEFAULT '', frozen TEXT, frozen_at BIGINT, released SMALLINT NOT NULL DEFAULT 0);
INSERT INTO "computers" VALUES('3',1,NULL,0,0,NULL,'',NULL,NULL,0);
CREATE TABLE duties (name TEXT PRIMARY KEY, holder TEXT NOT NULL, until BIGINT NOT NULL);
CREATE TABLE grants (
        grant_id TEXT PRIMARY KEY,
        task_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        data TEXT NOT NULL,
        expires_at BIGINT,
        max_uses BIGINT,
        uses BIGINT NOT NULL DEFAULT 0,
        revoked SMALLINT NOT NULL DEFAULT 0
    );
CREATE TABLE items (
        task_id TEXT NOT NULL,
        version BIGINT NOT NULL,
        item_id TEXT NOT NULL,
        data TEXT NOT NULL,
        PRIMARY KEY (task_id, version),
        UNIQUE (task_id, item_id)
    );
INSERT INTO "items" VALUES('t1',1,'i1','{"hash":"aa4bfb1ebc57ee03521e0d44c973863a5721ca4a0a06f5f2de47634797e00236","prev_hash":"0000000000000000000000000000000000000000000000000000000000000000","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"computers":["3"],"earlier":[],"kind":"task_submitted","max_steps":20,"max_tokens":0,"max_wall_s":0.0,"model":"scripted","on_reject":"cancel","priority":0,"prompt":"fix my farm","read_only":false,"roles":[],"session_id":"s1","tag":"maple","user_id":"alice"},"item_id":"i1","role":"user","schema":1,"task_id":"t1","version":1}');
INSERT INTO "items" VALUES('t1',2,'i2','{"hash":"709c73a093929932fc6e9f85cf779dd53671edae2959effdd332690a161ce895","prev_hash":"aa4bfb1ebc57ee03521e0d44c973863a5721ca4a0a06f5f2de47634797e00236","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"attempt":1,"kind":"model_asked","policy_version":"v1","prompt_version":"p1","view_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"item_id":"i2","role":"system","schema":1,"task_id":"t1","version":2}');
INSERT INTO "items" VALUES('t1',3,'i3','{"hash":"ee316c56f1c219c7b66d1ec204fc748fdfe8047e5fddffc495bba0c2cafa05df","prev_hash":"709c73a093929932fc6e9f85cf779dd53671edae2959effdd332690a161ce895","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"done_reason":"stop","kind":"model_replied","raw":{"sha256":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","size":2},"usage":{"input_tokens":0,"output_tokens":0}},"item_id":"i3","role":"assistant","schema":1,"task_id":"t1","version":3}');
INSERT INTO "items" VALUES('t1',4,'i4','{"hash":"23f067634501e07deb5f42cbf471457b5b1aa8c963dbe3699045627bd04040c7","prev_hash":"ee316c56f1c219c7b66d1ec204fc748fdfe8047e5fddffc495bba0c2cafa05df","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"calls":[{"args":{"content":"print()","path":"farm"},"call_digest":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","call_id":"c1","computer":"3","index":0,"tool":"cc_write"}],"evaluations":[{"effect":"ask","matched_rules":["writes"],"policy_version":"v1","reason":"writes ask","risk":"medium","rules_digest":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"}],"explanation":"","kind":"calls_proposed","partial":"at_end","siblings":"reads"},"item_id":"i4","role":"assistant","schema":1,"task_id":"t1","version":4}');
INSERT INTO "items" VALUES('t1',5,'i5','{"hash":"c21eb714977fbe8d8f44d71bb44bb57e04667d2548cca5db101a7a181889d36f","prev_hash":"23f067634501e07deb5f42cbf471457b5b1aa8c963dbe3699045627bd04040c7","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"calls":[{"action_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","call_id":"c1","evaluation":{"effect":"ask","matched_rules":["writes"],"policy_version":"v1","reason":"writes ask","risk":"medium","rules_digest":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"},"observed":{"diff":null,"directories":[],"encoding":"utf-8","identity":"","note":"","program":null,"source":null,"state":{"farm":"absent"}}}],"expires_at":null,"kind":"review_requested","on_timeout":"stay_paused","policy_version":"v1","reason":"approval","remind_at":null,"request_id":"r1","risk":"medium"},"item_id":"i5","role":"system","schema":1,"task_id":"t1","version":5}');
INSERT INTO "items" VALUES('t2',1,'i6','{"hash":"5f54e17a2e70473b04bf2f3ed966651322d81b31305bb16042dc289d8269743b","prev_hash":"0000000000000000000000000000000000000000000000000000000000000000","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"computers":["3"],"earlier":[],"kind":"task_submitted","max_steps":20,"max_tokens":0,"max_wall_s":0.0,"model":"scripted","on_reject":"cancel","priority":0,"prompt":"mine iron","read_only":false,"roles":[],"session_id":"s1","tag":"maple","user_id":"alice"},"item_id":"i6","role":"user","schema":1,"task_id":"t2","version":1}');
INSERT INTO "items" VALUES('t2',2,'i7','{"hash":"dbe7f3b0bd276de353da60c69d4a87f6c2c1c5c8789fd765bbc8dbdf3ab9f614","prev_hash":"5f54e17a2e70473b04bf2f3ed966651322d81b31305bb16042dc289d8269743b","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"attempt":1,"kind":"model_asked","policy_version":"v1","prompt_version":"p1","view_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"item_id":"i7","role":"system","schema":1,"task_id":"t2","version":2}');
INSERT INTO "items" VALUES('t2',3,'i8','{"hash":"e07562c47338c0fac116d9a10387951ad45e40325be3f5930fe29978fc033c20","prev_hash":"dbe7f3b0bd276de353da60c69d4a87f6c2c1c5c8789fd765bbc8dbdf3ab9f614","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"done_reason":"stop","kind":"model_replied","raw":{"sha256":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","size":2},"usage":{"input_tokens":0,"output_tokens":0}},"item_id":"i8","role":"assistant","schema":1,"task_id":"t2","version":3}');
INSERT INTO "items" VALUES('t2',4,'i9','{"hash":"5b00bfaa350a02d25ff56b4c45ba05cda1003e6e84778f3473a1943010d019d9","prev_hash":"e07562c47338c0fac116d9a10387951ad45e40325be3f5930fe29978fc033c20","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"calls":[{"args":{"content":"print()","path":"farm"},"call_digest":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","call_id":"c1","computer":"3","index":0,"tool":"cc_write"}],"evaluations":[{"effect":"allow","matched_rules":["writes"],"policy_version":"v1","reason":"writes ask","risk":"medium","rules_digest":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"}],"explanation":"","kind":"calls_proposed","partial":"at_end","siblings":"reads"},"item_id":"i9","role":"assistant","schema":1,"task_id":"t2","version":4}');
INSERT INTO "items" VALUES('t2',5,'i10','{"hash":"94ee71e489ea28e690261a21ff616e7bebdad1973873755ad5667d7e02918318","prev_hash":"5b00bfaa350a02d25ff56b4c45ba05cda1003e6e84778f3473a1943010d019d9","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"action_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","before":{},"call_id":"c1","computer":"3","directories":[],"grant_id":null,"kind":"tool_started","number":1,"run_id":"c1.1"},"item_id":"i10","role":"system","schema":1,"task_id":"t2","version":5}');
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "meta" VALUES('cc-orchestrator schema','7');
INSERT INTO "meta" VALUES('cc-orchestrator needs','7');
CREATE TABLE policies (
        name TEXT PRIMARY KEY,
        version BIGINT NOT NULL,
        sha256 TEXT NOT NULL,
        source TEXT NOT NULL,
        loaded_at BIGINT NOT NULL,
        loaded_by TEXT NOT NULL,
        judged BIGINT NOT NULL
    );
CREATE TABLE pruned (task_id TEXT PRIMARY KEY, pruned_at BIGINT NOT NULL);
CREATE TABLE requests (request_id TEXT PRIMARY KEY, task_id TEXT NOT NULL);
INSERT INTO "requests" VALUES('r1','t1');
CREATE TABLE sign_ins (
        session_hash TEXT PRIMARY KEY,
        token_hash TEXT NOT NULL,
        name TEXT NOT NULL,
        begun_at BIGINT NOT NULL,
        used_at BIGINT NOT NULL
    );
CREATE TABLE streams (stream TEXT PRIMARY KEY, version BIGINT NOT NULL, head_hash TEXT NOT NULL);
CREATE TABLE tasks (
        task_id TEXT PRIMARY KEY,
        status TEXT NOT NULL,
        version BIGINT NOT NULL,
        head_hash TEXT NOT NULL,
        user_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        prompt TEXT NOT NULL,
        computers TEXT NOT NULL,
        priority BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        due BIGINT,
        holder TEXT,
        token BIGINT NOT NULL DEFAULT 0,
        lease_until BIGINT NOT NULL DEFAULT 0,
        lease_for BIGINT NOT NULL DEFAULT 0,
        waiting_for TEXT,
        woken SMALLINT NOT NULL DEFAULT 0
    , pinned SMALLINT NOT NULL DEFAULT 0);
INSERT INTO "tasks" VALUES('t1','Paused',5,'c21eb714977fbe8d8f44d71bb44bb57e04667d2548cca5db101a7a181889d36f','alice','s1','fix my farm','["3"]',0,1893456000000000,1893456000000000,1893456000000000,NULL,0,0,0,NULL,0,0);
INSERT INTO "tasks" VALUES('t2','Running',5,'94ee71e489ea28e690261a21ff616e7bebdad1973873755ad5667d7e02918318','alice','s1','mine iron','["3"]',0,1893456001000000,1893456001000000,1893456001000000,NULL,0,0,0,NULL,0,0);
CREATE TABLE tokens (
        token_hash TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        roles TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        revoked SMALLINT NOT NULL DEFAULT 0
    );
INSERT INTO "tokens" VALUES('h1','person','alice','["reviewer"]',1893456001000000,0);
CREATE INDEX tasks_newest ON tasks (created_at, task_id);
CREATE INDEX tasks_by_status ON tasks (status, created_at, task_id);
CREATE INDEX tasks_due ON tasks (priority DESC, due, task_id) WHERE due IS NOT NULL;
CREATE INDEX tasks_held ON tasks (task_id) WHERE holder IS NOT NULL;
CREATE INDEX tasks_waiting ON tasks (waiting_for, task_id) WHERE waiting_for IS NOT NULL;
CREATE INDEX computers_claimed ON computers (task, computer) WHERE task IS NOT NULL;
CREATE INDEX tasks_by_session ON tasks (session_id, created_at, task_id);
CREATE INDEX grants_by_session ON grants (session_id);
CREATE INDEX backups_of ON backups (computer, made_at);
COMMIT;
