BEGIN TRANSACTION;
CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, content BYTEA NOT NULL);
INSERT INTO "blobs" VALUES('d35c416a85b807e9b5384915d6ebb4a9f7352713efd89857b45a242f473728a9',X'6C61726765');
CREATE TABLE computers (computer TEXT PRIMARY KEY, number BIGINT NOT NULL, task TEXT);
INSERT INTO "computers" VALUES('3',1,NULL);
CREATE TABLE items (
        task_id TEXT NOT NULL,
        version BIGINT NOT NULL,
        item_id TEXT NOT NULL,
        data TEXT NOT NULL,
        PRIMARY KEY (task_id, version),
        UNIQUE (task_id, item_id)
    );
INSERT INTO "items" VALUES('t1',1,'i1','{"hash":"fdfb57d57be6a79441671ddcfb94c9e01934c792913401c3615ab2c9e2f9afd7","prev_hash":"0000000000000000000000000000000000000000000000000000000000000000","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"computers":["3"],"earlier":[],"kind":"task_submitted","max_steps":20,"max_tokens":0,"max_wall_s":0.0,"model":"scripted","on_reject":"cancel","priority":0,"prompt":"fix my farm","session_id":"s1","tag":"maple","user_id":"alice"},"item_id":"i1","role":"user","schema":1,"task_id":"t1","version":1}');
INSERT INTO "items" VALUES('t1',2,'i2','{"hash":"f6d7d1e9b3ebdf9f286341328f2cf179768a73ff743c211a2c2bd625fa5d3211","prev_hash":"fdfb57d57be6a79441671ddcfb94c9e01934c792913401c3615ab2c9e2f9afd7","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"attempt":1,"kind":"model_asked","policy_version":"v1","prompt_version":"p1","view_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"item_id":"i2","role":"system","schema":1,"task_id":"t1","version":2}');
INSERT INTO "items" VALUES('t1',3,'i3','{"hash":"0362e0c1a38b1dd132395c227e647ff27c657da3ab26b0ad90c3cfedc509606c","prev_hash":"f6d7d1e9b3ebdf9f286341328f2cf179768a73ff743c211a2c2bd625fa5d3211","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"done_reason":"stop","kind":"model_replied","raw":{"sha256":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","size":2},"usage":{"input_tokens":0,"output_tokens":0}},"item_id":"i3","role":"assistant","schema":1,"task_id":"t1","version":3}');
INSERT INTO "items" VALUES('t1',4,'i4','{"hash":"73e05e28807effd621dfbac7cdf76c156fc201bf66d2540f577b4e22805a1ebf","prev_hash":"0362e0c1a38b1dd132395c227e647ff27c657da3ab26b0ad90c3cfedc509606c","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"calls":[{"args":{"content":"print()","path":"farm"},"call_digest":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","call_id":"c1","computer":"3","index":0,"tool":"cc_write"}],"evaluations":[{"effect":"ask","matched_rules":["writes"],"policy_version":"v1","reason":"writes ask","risk":"medium","rules_digest":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"}],"explanation":"","kind":"calls_proposed"},"item_id":"i4","role":"assistant","schema":1,"task_id":"t1","version":4}');
INSERT INTO "items" VALUES('t1',5,'i5','{"hash":"d24dc7fcf0a6c136838ed739ab6179e6fe59a0b65b4ac96b8927360030807189","prev_hash":"73e05e28807effd621dfbac7cdf76c156fc201bf66d2540f577b4e22805a1ebf","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"calls":[{"action_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","call_id":"c1","evaluation":{"effect":"ask","matched_rules":["writes"],"policy_version":"v1","reason":"writes ask","risk":"medium","rules_digest":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"},"observed":{"diff":null,"directories":[],"encoding":"utf-8","note":"","program":null,"source":null,"state":{"farm":"absent"}}}],"expires_at":null,"kind":"review_requested","policy_version":"v1","reason":"approval","request_id":"r1","risk":"medium"},"item_id":"i5","role":"system","schema":1,"task_id":"t1","version":5}');
INSERT INTO "items" VALUES('t2',1,'i6','{"hash":"3e84d8d0c7817abd3c6644b15169a2f5e1811323de161046cad9aa39c33fe177","prev_hash":"0000000000000000000000000000000000000000000000000000000000000000","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"computers":["3"],"earlier":[],"kind":"task_submitted","max_steps":20,"max_tokens":0,"max_wall_s":0.0,"model":"scripted","on_reject":"cancel","priority":0,"prompt":"mine iron","session_id":"s1","tag":"maple","user_id":"alice"},"item_id":"i6","role":"user","schema":1,"task_id":"t2","version":1}');
INSERT INTO "items" VALUES('t2',2,'i7','{"hash":"39211562294e7116362c34e7c17150d13c4b11d3292b83ecd9aeeb9f3e15e9ac","prev_hash":"3e84d8d0c7817abd3c6644b15169a2f5e1811323de161046cad9aa39c33fe177","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"attempt":1,"kind":"model_asked","policy_version":"v1","prompt_version":"p1","view_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"item_id":"i7","role":"system","schema":1,"task_id":"t2","version":2}');
INSERT INTO "items" VALUES('t2',3,'i8','{"hash":"1a46a4720457d0b1c5e3325a47c22cbbddaa5094d6bb80229b662c591cd6d57e","prev_hash":"39211562294e7116362c34e7c17150d13c4b11d3292b83ecd9aeeb9f3e15e9ac","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"done_reason":"stop","kind":"model_replied","raw":{"sha256":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","size":2},"usage":{"input_tokens":0,"output_tokens":0}},"item_id":"i8","role":"assistant","schema":1,"task_id":"t2","version":3}');
INSERT INTO "items" VALUES('t2',4,'i9','{"hash":"2069432a9f1e6b18d321f93be3683be2048b0e7daac95fd6e0004727afc55aad","prev_hash":"1a46a4720457d0b1c5e3325a47c22cbbddaa5094d6bb80229b662c591cd6d57e","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"calls":[{"args":{"content":"print()","path":"farm"},"call_digest":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","call_id":"c1","computer":"3","index":0,"tool":"cc_write"}],"evaluations":[{"effect":"allow","matched_rules":["writes"],"policy_version":"v1","reason":"writes ask","risk":"medium","rules_digest":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"}],"explanation":"","kind":"calls_proposed"},"item_id":"i9","role":"assistant","schema":1,"task_id":"t2","version":4}');
INSERT INTO "items" VALUES('t2',5,'i10','{"hash":"249b34b297da6da0076d1ce14d40482723457daf6a7bfe2d6752f52c2a4d8486","prev_hash":"2069432a9f1e6b18d321f93be3683be2048b0e7daac95fd6e0004727afc55aad","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"action_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","before":{},"call_id":"c1","computer":"3","directories":[],"kind":"tool_started","number":1,"run_id":"c1.1"},"item_id":"i10","role":"system","schema":1,"task_id":"t2","version":5}');
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "meta" VALUES('cc-orchestrator schema','2');
CREATE TABLE requests (request_id TEXT PRIMARY KEY, task_id TEXT NOT NULL);
INSERT INTO "requests" VALUES('r1','t1');
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
    );
INSERT INTO "tasks" VALUES('t1','Paused',5,'d24dc7fcf0a6c136838ed739ab6179e6fe59a0b65b4ac96b8927360030807189','alice','s1','fix my farm','["3"]',0,1893456000000000,1893456000000000,NULL,NULL,1,0,0,NULL,0);
INSERT INTO "tasks" VALUES('t2','Running',5,'249b34b297da6da0076d1ce14d40482723457daf6a7bfe2d6752f52c2a4d8486','alice','s1','mine iron','["3"]',0,1893456001000000,1893456001000000,1893456001000000,NULL,0,0,0,NULL,0);
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
COMMIT;
