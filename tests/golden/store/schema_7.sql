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
INSERT INTO "blob_marks" VALUES('d35c416a85b807e9b5384915d6ebb4a9f7352713efd89857b45a242f473728a9',5,0,1893456001000000);
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
INSERT INTO "items" VALUES('t1',1,'i1','{"hash":"52453a0da802d57c99f74ff0f6ae274e8380935a62d99dc4aeff0f84a6e65ec0","prev_hash":"0000000000000000000000000000000000000000000000000000000000000000","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"computers":["3"],"earlier":[],"for_program":false,"kind":"task_submitted","max_steps":20,"max_tokens":0,"max_wall_s":0.0,"model":"scripted","on_reject":"cancel","priority":0,"prompt":"fix my farm","read_only":false,"rehearses":null,"restores":null,"roles":[],"session_id":"s1","tag":"maple","user_id":"alice"},"item_id":"i1","role":"user","schema":1,"task_id":"t1","version":1}');
INSERT INTO "items" VALUES('t1',2,'i2','{"hash":"20c31809e3c94cd184a0b0ac817cf47f7d632028850ee98dc969d343ca9aa910","prev_hash":"52453a0da802d57c99f74ff0f6ae274e8380935a62d99dc4aeff0f84a6e65ec0","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"attempt":1,"kind":"model_asked","num_ctx":0,"num_predict":0,"policy_version":"v1","prompt_version":"p1","view_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"item_id":"i2","role":"system","schema":1,"task_id":"t1","version":2}');
INSERT INTO "items" VALUES('t1',3,'i3','{"hash":"1b06bdae7d2b53c616d7f67297567ef3cc17eb3dd668533252ccdcecda9af156","prev_hash":"20c31809e3c94cd184a0b0ac817cf47f7d632028850ee98dc969d343ca9aa910","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"done_reason":"stop","kind":"model_replied","raw":{"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"usage":{"input_tokens":0,"output_tokens":0}},"item_id":"i3","role":"assistant","schema":1,"task_id":"t1","version":3}');
INSERT INTO "items" VALUES('t1',4,'i4','{"hash":"f42109f78e6d9d66e556ec07675cb8e9d0a39a916c9e29cec0fb86eb83a081b7","prev_hash":"1b06bdae7d2b53c616d7f67297567ef3cc17eb3dd668533252ccdcecda9af156","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"calls":[{"args":{"content":"print()","path":"farm"},"call_digest":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","call_id":"c1","computer":"3","index":0,"stated_risk":null,"tool":"cc_write"}],"evaluations":[{"effect":"ask","matched_rules":["writes"],"policy_version":"v1","reason":"writes ask","risk":"medium","rules_digest":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"}],"explanation":"","kind":"calls_proposed","partial":"at_end","present":"","siblings":"reads"},"item_id":"i4","role":"assistant","schema":1,"task_id":"t1","version":4}');
INSERT INTO "items" VALUES('t1',5,'i5','{"hash":"ea995fd894125bea31c5cc791af50e51f2295939bf78b64724052241e1d6b98e","prev_hash":"f42109f78e6d9d66e556ec07675cb8e9d0a39a916c9e29cec0fb86eb83a081b7","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:00Z","fact":{"calls":[{"action_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","call_id":"c1","evaluation":{"effect":"ask","matched_rules":["writes"],"policy_version":"v1","reason":"writes ask","risk":"medium","rules_digest":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"},"observed":{"diff":null,"directories":[],"encoding":"utf-8","identity":"","made":[],"note":"","program":null,"source":null,"state":{"farm":"absent"}}}],"expires_at":null,"kind":"review_requested","on_timeout":"stay_paused","policy_version":"v1","reason":"approval","remind_at":null,"request_id":"r1","risk":"medium"},"item_id":"i5","role":"system","schema":1,"task_id":"t1","version":5}');
INSERT INTO "items" VALUES('t2',1,'i6','{"hash":"d33f1b15f6e5e43902cbcf867f0f26cfbbf6ea656c92ccbd343f60ff29cc796f","prev_hash":"0000000000000000000000000000000000000000000000000000000000000000","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"computers":["3"],"earlier":[],"for_program":false,"kind":"task_submitted","max_steps":20,"max_tokens":0,"max_wall_s":0.0,"model":"scripted","on_reject":"cancel","priority":0,"prompt":"mine iron","read_only":false,"rehearses":null,"restores":null,"roles":[],"session_id":"s1","tag":"maple","user_id":"alice"},"item_id":"i6","role":"user","schema":1,"task_id":"t2","version":1}');
INSERT INTO "items" VALUES('t2',2,'i7','{"hash":"be35875b7172050908dbf58bd9b39c9b187ee5cbdcd2072e732dbb14114a5c60","prev_hash":"d33f1b15f6e5e43902cbcf867f0f26cfbbf6ea656c92ccbd343f60ff29cc796f","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"attempt":1,"kind":"model_asked","num_ctx":0,"num_predict":0,"policy_version":"v1","prompt_version":"p1","view_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"item_id":"i7","role":"system","schema":1,"task_id":"t2","version":2}');
INSERT INTO "items" VALUES('t2',3,'i8','{"hash":"5e861968cc6e2db923cd7a948d5f1ebee03056456b44d638d22d97d3e86c1e37","prev_hash":"be35875b7172050908dbf58bd9b39c9b187ee5cbdcd2072e732dbb14114a5c60","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"done_reason":"stop","kind":"model_replied","raw":{"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"usage":{"input_tokens":0,"output_tokens":0}},"item_id":"i8","role":"assistant","schema":1,"task_id":"t2","version":3}');
INSERT INTO "items" VALUES('t2',4,'i9','{"hash":"cf051f0d82b3ed2e001c31a6c99f89ab304318060046c2f4e9c4c3d33e0bf242","prev_hash":"5e861968cc6e2db923cd7a948d5f1ebee03056456b44d638d22d97d3e86c1e37","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"calls":[{"args":{"content":"print()","path":"farm"},"call_digest":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","call_id":"c1","computer":"3","index":0,"stated_risk":null,"tool":"cc_write"}],"evaluations":[{"effect":"allow","matched_rules":["writes"],"policy_version":"v1","reason":"writes ask","risk":"medium","rules_digest":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"}],"explanation":"","kind":"calls_proposed","partial":"at_end","present":"","siblings":"reads"},"item_id":"i9","role":"assistant","schema":1,"task_id":"t2","version":4}');
INSERT INTO "items" VALUES('t2',5,'i10','{"hash":"0b9f6a66681fafe4499ff0b9045ea741550c6752adecc9013ef2b26e5599f35f","prev_hash":"cf051f0d82b3ed2e001c31a6c99f89ab304318060046c2f4e9c4c3d33e0bf242","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"action_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","before":{},"call_id":"c1","computer":"3","directories":[],"grant_id":null,"kind":"tool_started","made":[],"number":1,"run_id":"c1.1","watched":null},"item_id":"i10","role":"system","schema":1,"task_id":"t2","version":5}');
INSERT INTO "items" VALUES('system',1,'i11','{"hash":"ebbb90f998063e67617577e9cce83b16c048f51e963c769c37cdf97752763668","prev_hash":"0000000000000000000000000000000000000000000000000000000000000000","actor":{"auth":"","id":"orchestrator","kind":"system"},"at":"2030-01-01T00:00:01Z","fact":{"fingerprint":"33112ee14ee469c3eb52fe90322ec81dd404a0093d565a6d71ce77cbc8124e3b","holder_kind":"person","kind":"token_issued","name":"alice","owner":"","roles":["reviewer"]},"item_id":"i11","role":"system","schema":1,"task_id":"system","version":1}');
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
INSERT INTO "streams" VALUES('system',1,'ebbb90f998063e67617577e9cce83b16c048f51e963c769c37cdf97752763668');
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
INSERT INTO "tasks" VALUES('t1','Paused',5,'ea995fd894125bea31c5cc791af50e51f2295939bf78b64724052241e1d6b98e','alice','s1','fix my farm','["3"]',0,1893456000000000,1893456000000000,1893456000000000,NULL,0,0,0,NULL,0,0);
INSERT INTO "tasks" VALUES('t2','Running',5,'0b9f6a66681fafe4499ff0b9045ea741550c6752adecc9013ef2b26e5599f35f','alice','s1','mine iron','["3"]',0,1893456001000000,1893456001000000,1893456001000000,NULL,0,0,0,NULL,0,0);
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
