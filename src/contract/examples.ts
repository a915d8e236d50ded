/**
 * An example of request and answer for operations, as the service answered when it was asked: `RECORD_EXAMPLES=on npx vitest run
 * test/api/examples.test.ts` asks anew and writes this file. Data; any thread.
 */

export interface Example {
  request?: unknown;
  /** By status. */
  replies: Readonly<Record<number, unknown>>;
}

/** By operation. */
export const EXAMPLES: Readonly<Record<string, Example>> = {
  get_me: {
    replies: {
      '200': {
        id: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
        email: 'ann@example.com',
        display_name: 'ann',
        account_type: 'developer',
        onboarded: false,
      },
    },
  },
  patch_me: {
    request: { display_name: 'Ann', onboarded: true },
    replies: {
      '200': {
        id: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
        email: 'ann@example.com',
        display_name: 'Ann',
        account_type: 'developer',
        onboarded: true,
      },
    },
  },
  bootstrap: {
    replies: {
      '200': {
        profile: {
          id: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
          email: 'ann@example.com',
          display_name: 'Ann',
          account_type: 'developer',
          onboarded: true,
        },
        organizations: [
          {
            id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
            name: 'ann',
            created_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
            created_at: '2026-11-23T19:08:31.532Z',
          },
        ],
        role: 'owner',
        subscription: {
          plan: 'free',
          status: 'none',
          current_period_start: null,
          current_period_end: null,
          cancel_at_period_end: false,
          intervention_cap: 50000,
        },
        invitations: [],
      },
    },
  },
  create_organization: {
    request: { name: 'Example' },
    replies: {
      '200': {
        id: 'org_01M84WYN4X3K0TNH2KD4JG9Q1H',
        name: 'Example',
        created_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
        created_at: '2026-11-23T19:08:32.285Z',
      },
    },
  },
  list_organizations: {
    replies: {
      '200': [
        {
          id: 'org_01M84WYN4X3K0TNH2KD4JG9Q1H',
          name: 'Example',
          created_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
          created_at: '2026-11-23T19:08:32.285Z',
        },
        {
          id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
          name: 'ann',
          created_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
          created_at: '2026-11-23T19:08:31.532Z',
        },
      ],
    },
  },
  read_organization: {
    replies: {
      '200': {
        id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
        name: 'ann',
        created_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
        created_at: '2026-11-23T19:08:31.532Z',
      },
    },
  },
  rename_organization: {
    request: { name: 'Example Ltd' },
    replies: {
      '200': {
        id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
        name: 'Example Ltd',
        created_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
        created_at: '2026-11-23T19:08:31.532Z',
      },
    },
  },
  list_members: {
    replies: {
      '200': [
        {
          user_id: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
          email: 'ann@example.com',
          role: 'owner',
          joined_at: '2026-11-23T19:08:31.532Z',
        },
      ],
    },
  },
  create_project: {
    request: { name: 'shop' },
    replies: {
      '200': {
        id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
        org_id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
        name: 'shop',
        created_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
        created_at: '2026-11-23T19:08:32.525Z',
        key_count: 0,
      },
    },
  },
  read_project: {
    replies: {
      '200': {
        id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
        org_id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
        name: 'shop',
        created_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
        created_at: '2026-11-23T19:08:32.525Z',
        key_count: 0,
      },
    },
  },
  rename_project: {
    request: { name: 'web shop' },
    replies: {
      '200': {
        id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
        org_id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
        name: 'web shop',
        created_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
        created_at: '2026-11-23T19:08:32.525Z',
        key_count: 0,
      },
    },
  },
  list_projects: {
    replies: {
      '200': [
        {
          id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
          org_id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
          name: 'web shop',
          created_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
          created_at: '2026-11-23T19:08:32.525Z',
          key_count: 0,
        },
      ],
    },
  },
  create_api_key: {
    request: { name: 'ci', project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D' },
    replies: {
      '200': {
        id: 'key_01M84WYNJ2010VMJ2M9Z82AF8W',
        name: 'ci',
        raw_key: 'svc_live_EXAMPLE',
        prefix: 'svc_live_EXAMPLE',
        last4: 'NhDU',
      },
    },
  },
  list_api_keys: {
    replies: {
      '200': [
        {
          id: 'key_01M84WYNJ2010VMJ2M9Z82AF8W',
          name: 'ci',
          prefix: 'svc_live_EXAMPLE',
          last4: 'NhDU',
          scope: 'project',
          project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
          project_name: 'web shop',
          created_at: '2026-11-23T19:08:32.706Z',
          last_used_at: '2026-11-23T19:08:32.850Z',
          revoked: false,
        },
      ],
    },
  },
  retention: {
    replies: {
      '200': {
        kinds: [
          { kind: 'runs', days: null },
          { kind: 'traces', days: null },
          { kind: 'findings', days: null },
          { kind: 'live_events', days: null },
          { kind: 'captures', days: null },
        ],
        looks_every_s: 600,
      },
    },
  },
  startRun: {
    request: {
      run_id: 'run-1',
      agent_name: 'fixer',
      task: 'Fix the failing test of the invoice parser',
      model: 'claude-demo-large',
      framework: 'langgraph',
      task_profile: 'coding',
      experiment_id: 'help',
      arm: 'on',
    },
    replies: { '200': { run_id: 'run-1', status: 'running', started_at: '2026-11-23T19:08:32.875Z' } },
  },
  logStep: {
    request: {
      step_index: 3,
      action: 'run_tests',
      action_input: 'npm test -- invoice',
      thought: 'I run the test again.',
      observation: '1 failed: expected 12.50, got 12.5',
      is_error: true,
      tokens: 410,
    },
    replies: {
      '200': {
        scores: {
          verification_skip: 0,
          claim_contradiction: 0,
          cyclic_compression: 0,
          semantic_loop: 0.55,
          silent_topic_drift: 0,
          infinite_loop: 0.75,
        },
        total_score: 0.271,
        fired: ['semantic_loop', 'infinite_loop'],
        max_score: 0.75,
        alarm: true,
      },
    },
  },
  evaluate: {
    request: { run_id: 'run-1' },
    replies: {
      '200': {
        inject: true,
        intervention_text:
          'Run monitor: infinite_loop. You have made the same call 3 times and the result is the same each time. Evidence: steps 0 and 1, then step 2: run_tests "npm test -- invoice". The result now: "1 failed: expected 12.50, got 12.5". Instead: Do not make this call again: it will give the same result. Use what it already told you. If that is not enough, change something first (other arguments, another tool, another source, or the cause of the failure), and say in one sentence what will be different this time.',
        failure_type: 'infinite_loop',
        level: 'nudge',
        fired: ['semantic_loop', 'infinite_loop'],
        scores: {
          verification_skip: 0,
          claim_contradiction: 0,
          cyclic_compression: 0,
          semantic_loop: 0.7,
          silent_topic_drift: 0,
          infinite_loop: 0.85,
        },
        composite: 0.322,
        max_score: 0.85,
        alarm: true,
      },
    },
  },
  finishRun: {
    request: { outcome: 'success' },
    replies: {
      '200': {
        run_id: 'run-1',
        status: 'finished',
        outcome: 'success',
        steps: 5,
        tokens: 2050,
        duration_ms: 247,
        max_total_score: 0.322,
        fired: {
          verification_skip: 0,
          claim_contradiction: 0,
          cyclic_compression: 0,
          semantic_loop: 2,
          silent_topic_drift: 0,
          infinite_loop: 3,
        },
      },
    },
  },
  listRuns: {
    replies: {
      '200': {
        runs: [
          {
            run_id: 'run-1',
            project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
            task: 'Fix the failing test of the invoice parser',
            agent_name: 'fixer',
            model: 'claude-demo-large',
            framework: 'langgraph',
            task_profile: 'coding',
            codebase_id: '',
            experiment_id: 'help',
            arm: 'on',
            status: 'finished',
            outcome: 'success',
            started_at: '2026-11-23T19:08:32.875Z',
            finished_at: '2026-11-23T19:08:33.122Z',
            duration_ms: 247,
            steps: 5,
            tokens: 2050,
            max_total_score: 0.322,
            fired: {
              verification_skip: 0,
              claim_contradiction: 0,
              cyclic_compression: 0,
              semantic_loop: 2,
              silent_topic_drift: 0,
              infinite_loop: 3,
            },
          },
        ],
        next_cursor: null,
      },
    },
  },
  readRun: {
    replies: {
      '200': {
        run_id: 'run-1',
        project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
        task: 'Fix the failing test of the invoice parser',
        agent_name: 'fixer',
        model: 'claude-demo-large',
        framework: 'langgraph',
        task_profile: 'coding',
        codebase_id: '',
        experiment_id: 'help',
        arm: 'on',
        status: 'finished',
        outcome: 'success',
        started_at: '2026-11-23T19:08:32.875Z',
        finished_at: '2026-11-23T19:08:33.122Z',
        duration_ms: 247,
        steps: 5,
        tokens: 2050,
        max_total_score: 0.322,
        fired: {
          verification_skip: 0,
          claim_contradiction: 0,
          cyclic_compression: 0,
          semantic_loop: 2,
          silent_topic_drift: 0,
          infinite_loop: 3,
        },
      },
    },
  },
  listRunSteps: {
    replies: {
      '200': {
        steps: [
          {
            step_index: 0,
            action: 'run_tests',
            action_input: 'npm test -- invoice',
            thought: 'I run the test again.',
            observation: '1 failed: expected 12.50, got 12.5',
            is_error: true,
            tokens: 410,
            at: '2026-11-23T19:08:32.911Z',
            scores: {
              verification_skip: 0,
              claim_contradiction: 0,
              cyclic_compression: 0,
              semantic_loop: 0,
              silent_topic_drift: 0,
              infinite_loop: 0,
            },
            total_score: 0,
            fired: [],
            max_score: 0,
            alarm: false,
            intervention: null,
          },
        ],
        next_cursor: 'WzBd',
      },
    },
  },
  putProfile: {
    request: {
      name: 'careful',
      weights: { verification_skip: 1, infinite_loop: 0.5 },
      thresholds: { verification_skip: 0.4 },
    },
    replies: {
      '200': {
        name: 'careful',
        weights: {
          verification_skip: 1,
          claim_contradiction: 0,
          cyclic_compression: 0,
          semantic_loop: 0,
          silent_topic_drift: 0,
          infinite_loop: 0.5,
        },
        thresholds: {
          verification_skip: 0.4,
          claim_contradiction: 0.5,
          cyclic_compression: 0.5,
          semantic_loop: 0.5,
          silent_topic_drift: 0.5,
          infinite_loop: 0.5,
        },
      },
    },
  },
  listProfiles: {
    replies: {
      '200': {
        profiles: [
          {
            name: 'coding',
            weights: {
              verification_skip: 0.9,
              claim_contradiction: 0.7,
              cyclic_compression: 0.6,
              semantic_loop: 0.9,
              silent_topic_drift: 0.5,
              infinite_loop: 1,
            },
            thresholds: {
              verification_skip: 0.5,
              claim_contradiction: 0.5,
              cyclic_compression: 0.5,
              semantic_loop: 0.5,
              silent_topic_drift: 0.5,
              infinite_loop: 0.5,
            },
            is_built_in: true,
          },
        ],
        next_cursor: 'WzAsImNvZGluZyJd',
      },
    },
  },
  listExperiments: { replies: { '200': { experiments: [{ experiment_id: 'help' }], next_cursor: null } } },
  reportExperiment: {
    replies: {
      '200': {
        experiment_id: 'help',
        arms: {
          on: {
            runs: 1,
            finished: 1,
            successes: 1,
            success_rate: 1,
            ci95: [0.20654931437723745, 1],
            mean_steps: 5,
            mean_tokens: 2050,
            mean_duration_ms: 247,
          },
          off: {
            runs: 0,
            finished: 0,
            successes: 0,
            success_rate: null,
            ci95: null,
            mean_steps: null,
            mean_tokens: null,
            mean_duration_ms: null,
          },
        },
        effect: { success_rate_diff: null, ci95: null, p_value: null, always_valid_ci95: null },
        srm: {
          expected_on: 0.5,
          units: { on: 1, off: 0 },
          observed_on: 1,
          chi_square: 1,
          p_value: 0.31731050786291415,
          log10_p_value: -0.4985155458279891,
          flagged: false,
          verdict: 'too_few_units',
        },
        mixed_units: 0,
        mixed_unit_names: [],
        by_version: [{ svc_version: '', arm: 'on', runs: 1, successes: 1, success_rate: 1 }],
      },
    },
  },
  otel_export_traces: {
    request: {
      resourceSpans: [
        {
          scopeSpans: [
            {
              scope: { name: 'my.agent' },
              spans: [
                {
                  traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
                  spanId: '00f067aa0ba902b7',
                  name: 'execute_tool run_tests',
                  startTimeUnixNano: '1795459738000000000',
                  endTimeUnixNano: '1795459739000000000',
                  attributes: [
                    { key: 'session.id', value: { stringValue: 'session-1' } },
                    { key: 'gen_ai.operation.name', value: { stringValue: 'execute_tool' } },
                    { key: 'gen_ai.tool.name', value: { stringValue: 'run_tests' } },
                    { key: 'gen_ai.tool.call.id', value: { stringValue: 'call_1' } },
                  ],
                },
              ],
            },
          ],
        },
      ],
    },
    replies: { '200': {} },
  },
  otel_export_logs: {
    request: {
      resourceLogs: [
        {
          scopeLogs: [
            {
              scope: { name: 'com.anthropic.claude_code.events' },
              logRecords: [
                {
                  timeUnixNano: '1795459740000000000',
                  body: { stringValue: 'claude_code.tool_result' },
                  attributes: [
                    { key: 'session.id', value: { stringValue: 'session-1' } },
                    { key: 'tool_name', value: { stringValue: 'Bash' } },
                    { key: 'tool_use_id', value: { stringValue: 'toolu_1' } },
                    { key: 'success', value: { stringValue: 'true' } },
                  ],
                },
              ],
            },
          ],
        },
      ],
    },
    replies: { '200': {} },
  },
  otel_export_metrics: {
    request: {
      resourceMetrics: [
        {
          scopeMetrics: [
            {
              scope: { name: 'com.anthropic.claude_code' },
              metrics: [
                {
                  name: 'claude_code.session.count',
                  sum: { dataPoints: [{ asInt: '1', timeUnixNano: '1795459740000000000' }] },
                },
              ],
            },
          ],
        },
      ],
    },
    replies: {
      '200': {
        partialSuccess: {
          rejectedDataPoints: '1',
          errorMessage: 'Metrics are not kept here; OTEL_METRICS_EXPORTER=none saves the sending',
        },
      },
    },
  },
  import_patterns: {
    request: {
      tier: 'e1',
      patterns: [
        {
          situation: 'A test of money fails since a number is printed without its last zero',
          dead_ends: 'Rounded the number; changed the expected text',
          unlock: 'Printed it with a fixed number of places',
          failure_type: 'infinite_loop',
        },
      ],
    },
    replies: {
      '200': {
        created: 1,
        merged: 0,
        patterns: [{ pattern_id: 'pat_01M84WYP8TY6VVYSWP56GE8320', created: true }],
      },
    },
  },
  retrieve_patterns: {
    request: { context: 'A test of money fails since a number is printed without its last zero', top_k: 3 },
    replies: {
      '200': {
        traces: [
          {
            tier: 'e1',
            pattern_id: 'pat_01M84WYP8TY6VVYSWP56GE8320',
            similarity: 1,
            fields: {
              situation: 'A test of money fails since a number is printed without its last zero',
              dead_ends: 'Rounded the number; changed the expected text',
              unlock: 'Printed it with a fixed number of places',
            },
          },
        ],
      },
    },
  },
  list_patterns: {
    replies: {
      '200': {
        patterns: [
          {
            pattern_id: 'pat_01M84WYP8TY6VVYSWP56GE8320',
            tier: 'e1',
            model: '',
            failure_type: 'infinite_loop',
            support: 1,
            sources: [],
            created_at: '2026-11-23T19:08:33.434Z',
            updated_at: '2026-11-23T19:08:33.434Z',
            project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
            fields: {
              situation: 'A test of money fails since a number is printed without its last zero',
              dead_ends: 'Rounded the number; changed the expected text',
              unlock: 'Printed it with a fixed number of places',
            },
          },
        ],
        next_cursor: null,
      },
    },
  },
  read_pattern: {
    replies: {
      '200': {
        pattern_id: 'pat_01M84WYP8TY6VVYSWP56GE8320',
        tier: 'e1',
        model: '',
        failure_type: 'infinite_loop',
        support: 1,
        sources: [],
        created_at: '2026-11-23T19:08:33.434Z',
        updated_at: '2026-11-23T19:08:33.434Z',
        project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
        fields: {
          situation: 'A test of money fails since a number is printed without its last zero',
          dead_ends: 'Rounded the number; changed the expected text',
          unlock: 'Printed it with a fixed number of places',
        },
      },
    },
  },
  submitTrace: {
    request: {
      trace_id: 'trace-1',
      outcome: 'success',
      task: 'Fix the failing test of the invoice parser',
      steps: [
        { action: 'run_tests', action_input: 'npm test', observation: '1 failed', is_error: true },
        { action: 'edit', action_input: 'src/invoice.ts', observation: 'saved' },
        { action: 'run_tests', action_input: 'npm test', observation: 'all passed' },
      ],
    },
    replies: { '200': { trace_id: 'trace-1', status: 'accepted', patterns_created: 1 } },
  },
  listTraces: {
    replies: {
      '200': {
        traces: [
          {
            trace_id: 'trace-1',
            project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
            status: 'done',
            pattern_ids: ['pat_01M84WYPN2KTBKYDRA4K287P8H'],
            patterns_created: 1,
            error: null,
            submitted_at: '2026-11-23T19:08:33.613Z',
            finished_at: '2026-11-23T19:08:33.840Z',
          },
        ],
        next_cursor: null,
      },
    },
  },
  readTrace: {
    replies: {
      '200': {
        trace_id: 'trace-1',
        project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
        status: 'done',
        pattern_ids: ['pat_01M84WYPN2KTBKYDRA4K287P8H'],
        patterns_created: 1,
        error: null,
        submitted_at: '2026-11-23T19:08:33.613Z',
        finished_at: '2026-11-23T19:08:33.840Z',
      },
    },
  },
  store_finding: {
    request: {
      content: 'Amounts are kept in cents; src/money.ts is the only place that makes texts of them.',
      file_path: 'src/money.ts',
      finding_type: 'convention',
    },
    replies: {
      '200': { finding_id: 'find_01M84WYPRYG2GMF9HZZHJBEPQ0', created_at: '2026-11-23T19:08:33.950Z' },
    },
  },
  recall_findings: {
    request: { query: 'how are amounts kept?' },
    replies: {
      '200': {
        findings: [
          {
            finding_id: 'find_01M84WYPRYG2GMF9HZZHJBEPQ0',
            project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
            content: 'Amounts are kept in cents; src/money.ts is the only place that makes texts of them.',
            file_path: 'src/money.ts',
            finding_type: 'convention',
            created_at: '2026-11-23T19:08:33.950Z',
            metadata: {},
            score: 0.4981078755517697,
          },
        ],
      },
    },
  },
  list_findings: {
    replies: {
      '200': {
        findings: [
          {
            finding_id: 'find_01M84WYPRYG2GMF9HZZHJBEPQ0',
            project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
            content: 'Amounts are kept in cents; src/money.ts is the only place that makes texts of them.',
            file_path: 'src/money.ts',
            finding_type: 'convention',
            created_at: '2026-11-23T19:08:33.950Z',
            metadata: {},
          },
        ],
        total: 1,
        next_cursor: null,
      },
    },
  },
  read_finding: {
    replies: {
      '200': {
        finding_id: 'find_01M84WYPRYG2GMF9HZZHJBEPQ0',
        project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
        content: 'Amounts are kept in cents; src/money.ts is the only place that makes texts of them.',
        file_path: 'src/money.ts',
        finding_type: 'convention',
        created_at: '2026-11-23T19:08:33.950Z',
        metadata: {},
      },
    },
  },
  list_codebases: {
    replies: { '200': { codebases: [{ codebase_id: 'shop', findings: null }], next_cursor: null } },
  },
  findings_coverage: {
    request: { file_paths: ['src/money.ts', 'src/mail.ts'] },
    replies: { '200': { coverage: 0.5 } },
  },
  invalidate_findings: {
    request: { file_paths: ['src/money.ts', 'src/mail.ts'] },
    replies: { '200': { deleted: 1 } },
  },
  delete_finding: { replies: {} },
  clear_findings: { replies: { '200': { cleared: true } } },
  delete_pattern: { replies: {} },
  deleteTrace: { replies: {} },
  deleteProfile: { replies: {} },
  deleteRun: { replies: {} },
  stream_ticket: { request: {}, replies: { '200': { ticket: 'EXAMPLE', expires_in_s: 60 } } },
  usage_stats: {
    replies: { '200': { key_count: 1, member_count: 1, injections: { total: 2, retrieve: 1, evaluate: 1 } } },
  },
  usage: {
    replies: {
      '200': {
        days: 1,
        from: '2026-11-23',
        to: '2026-11-23',
        series: [
          {
            date: '2026-11-23',
            injections: 2,
            retrievals: 1,
            evaluations: 1,
            runs: 1,
            steps: 5,
            traces: 1,
            tokens: 2050,
          },
        ],
        totals: { injections: 2, retrievals: 1, evaluations: 1, runs: 1, steps: 5, traces: 1, tokens: 2050 },
      },
    },
  },
  key_usage: {
    replies: {
      '200': {
        days: 1,
        from: '2026-11-23',
        to: '2026-11-23',
        keys: [
          {
            id: 'key_01M84WYNJ2010VMJ2M9Z82AF8W',
            name: 'ci',
            prefix: 'svc_live_EXAMPLE',
            last4: 'NhDU',
            project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
            revoked: false,
            requests: 0,
            series: [],
          },
        ],
      },
    },
  },
  get_subscription: {
    replies: {
      '200': {
        plan: 'free',
        status: 'none',
        current_period_start: null,
        current_period_end: null,
        cancel_at_period_end: false,
        intervention_cap: 50000,
      },
    },
  },
  intervention_usage: {
    replies: {
      '200': {
        used: 2,
        cap: 50000,
        remaining: 49998,
        period_start: '2026-11-01T00:00:00.000Z',
        period_end: '2026-12-01T00:00:00.000Z',
        series: [{ date: '2026-11-23', injections: 2 }],
      },
    },
  },
  send_feedback: {
    request: { message: 'It helped.', page: '/runs' },
    replies: { '200': { id: 'fb_01M84WYQ65VSTQD3R6W0DY4506', created_at: '2026-11-23T19:08:34.373Z' } },
  },
  invite: {
    request: { email: 'bob@example.com', role: 'member' },
    replies: {
      '200': {
        id: 'inv_01M84WYQ7DMCJ7F5VS5MRS5ZJP',
        org_id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
        email: 'bob@example.com',
        role: 'member',
        invited_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
        status: 'pending',
        created_at: '2026-11-23T19:08:34.413Z',
        expires_at: '2026-11-30T19:08:34.413Z',
        organization_name: 'Example Ltd',
        inviter_name: 'Ann',
      },
    },
  },
  list_invitations: {
    replies: {
      '200': [
        {
          id: 'inv_01M84WYQ7DMCJ7F5VS5MRS5ZJP',
          org_id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
          email: 'bob@example.com',
          role: 'member',
          invited_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
          status: 'pending',
          created_at: '2026-11-23T19:08:34.413Z',
          expires_at: '2026-11-30T19:08:34.413Z',
          organization_name: 'Example Ltd',
          inviter_name: 'Ann',
        },
      ],
    },
  },
  accept_invitation: {
    replies: {
      '200': {
        id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
        name: 'Example Ltd',
        created_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
        created_at: '2026-11-23T19:08:31.532Z',
      },
    },
  },
  change_member_role: {
    request: { role: 'viewer' },
    replies: {
      '200': {
        user_id: 'usr_01M84WYMTAEH6VRYFH9C9A5QDA',
        email: 'bob@example.com',
        role: 'viewer',
        joined_at: '2026-11-23T19:08:34.477Z',
      },
    },
  },
  remove_member: { replies: { '200': { removed: true } } },
  revoke_invitation: {
    replies: {
      '200': {
        id: 'inv_01M84WYQCFQPHBDEF57TSCREXX',
        org_id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
        email: 'carl@example.com',
        role: 'admin',
        invited_by: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
        status: 'revoked',
        created_at: '2026-11-23T19:08:34.575Z',
        expires_at: '2026-11-30T19:08:34.575Z',
        organization_name: 'Example Ltd',
        inviter_name: 'Ann',
      },
    },
  },
  rotate_api_key: {
    request: { overlap_seconds: 3600 },
    replies: {
      '200': {
        id: 'key_01M84WYQE50G4XM7WTN1PXYA03',
        name: 'ci',
        raw_key: 'svc_live_EXAMPLE',
        prefix: 'svc_live_EXAMPLE',
        last4: '81Qj',
      },
    },
  },
  revoke_api_key: {
    replies: {
      '200': {
        id: 'key_01M84WYQE50G4XM7WTN1PXYA03',
        name: 'ci',
        prefix: 'svc_live_EXAMPLE',
        last4: '81Qj',
        scope: 'project',
        project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
        project_name: 'web shop',
        created_at: '2026-11-23T19:08:34.629Z',
        last_used_at: null,
        revoked: true,
      },
    },
  },
  list_audit_log: {
    replies: {
      '200': [
        {
          id: 'aud_01M84WYQEZZNA7BK4XYWT01T42',
          org_id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
          actor: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
          actor_type: 'user',
          action: 'key.revoke',
          target: 'key_01M84WYQE50G4XM7WTN1PXYA03',
          before: {
            name: 'ci',
            prefix: 'svc_live_EXAMPLE',
            last4: '81Qj',
            project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
          },
          after: { revoked_at: '2026-11-23T19:08:34.655Z' },
          address: '127.0.0.1',
          created_at: '2026-11-23T19:08:34.655Z',
        },
        {
          id: 'aud_01M84WYQE50G4XM7WTN1PXYA04',
          org_id: 'org_01M84WYMDCQGNYWAJ3XKVAESTA',
          actor: 'usr_01M84WYMDCQGNYWAJ3XKVAEST9',
          actor_type: 'user',
          action: 'key.rotate',
          target: 'key_01M84WYNJ2010VMJ2M9Z82AF8W',
          before: {
            name: 'ci',
            prefix: 'svc_live_EXAMPLE',
            last4: 'NhDU',
            project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
          },
          after: {
            name: 'ci',
            prefix: 'svc_live_EXAMPLE',
            last4: '81Qj',
            project_id: 'proj_01M84WYNCDYZK12H1QGWCSWG2D',
            successor: 'key_01M84WYQE50G4XM7WTN1PXYA03',
            ends_at: '2026-11-23T20:08:34.629Z',
          },
          address: '127.0.0.1',
          created_at: '2026-11-23T19:08:34.629Z',
        },
      ],
    },
  },
  delete_project: { replies: { '200': { deleted: true, keys_revoked: 1 } } },
  delete_organization: { replies: {} },
  delete_me: { replies: {} },
  health: { replies: { '200': { status: 'ok', version: '0.2.0' } } },
  ready: { replies: { '200': { status: 'ready', checks: { actors: true, storage: true } } } },
  listCapturedRuns: {
    replies: {
      '200': {
        runs: [
          {
            run_id: 'invoice-4711',
            session_id: null,
            parent_run_id: null,
            kind: null,
            child_runs: [],
            task: 'Which invoices are open?',
            notes: [],
            providers: ['anthropic'],
            models: ['m'],
            exchanges: 2,
            turns: 2,
            student_turns: 0,
            started_at: '2026-11-23T19:08:45.080Z',
            finished_at: '2026-11-23T19:08:45.174Z',
            duration_ms: 94.31298828125,
            input_tokens: 2,
            output_tokens: 2,
            cache_read_tokens: null,
            cache_write_tokens: null,
            cost_usd: null,
            unpriced_turns: 2,
            errors: 0,
            aborted: 0,
            gaps: [],
            golden: null,
            reasons: [],
          },
        ],
        next_cursor: null,
        listed_runs: 1,
        left_out_runs: 0,
        exchanges_without_run: 0,
        being_read: null,
      },
    },
  },
  readCapturedRun: {
    replies: {
      '200': {
        run: {
          run_id: 'invoice-4711',
          session_id: null,
          parent_run_id: null,
          kind: null,
          child_runs: [],
          task: 'Which invoices are open?',
          notes: [],
          providers: ['anthropic'],
          models: ['m'],
          exchanges: 2,
          turns: 2,
          student_turns: 0,
          started_at: '2026-11-23T19:08:45.080Z',
          finished_at: '2026-11-23T19:08:45.174Z',
          duration_ms: 94.31298828125,
          input_tokens: 2,
          output_tokens: 2,
          cache_read_tokens: null,
          cache_write_tokens: null,
          cost_usd: null,
          unpriced_turns: 2,
          errors: 0,
          aborted: 0,
          gaps: [],
          golden: false,
          reasons: [
            {
              code: 'unlinked',
              words: 'exchange 2: not the continuation of the turn before, so one may be missing',
            },
          ],
        },
        parent_is_captured: false,
        next_cursor: null,
        turns: [
          {
            exchange_id: 1,
            kind: 'turn',
            seq: null,
            method: 'POST',
            path: '/v1/messages',
            status: 200,
            provider: 'anthropic',
            shape: 'messages',
            model: 'm',
            started_at: '2026-11-23T19:08:45.080Z',
            first_byte_ms: 39.515,
            latency_ms: 40.507,
            failed: false,
            aborted: false,
            truncated: false,
            undecodable: false,
            served_by: 'upstream',
            is_retry: false,
            link: 'starts',
            conversation: 1,
            follows: null,
            system: [],
            tools: [],
            messages_added: [{ role: 'user', content: [{ type: 'text', text: 'Which invoices are open?' }] }],
            content: [{ type: 'text', text: 'You said Which invoices are open?' }],
            stop_reason: 'end_turn',
            usage: { input_tokens: 1, output_tokens: 1, cache_read_tokens: null, cache_write_tokens: null },
            cost_usd: null,
            relegation: null,
            error: null,
            problem: '',
            is_cut: false,
          },
          {
            exchange_id: 2,
            kind: 'turn',
            seq: null,
            method: 'POST',
            path: '/v1/messages',
            status: 200,
            provider: 'anthropic',
            shape: 'messages',
            model: 'm',
            started_at: '2026-11-23T19:08:45.144Z',
            first_byte_ms: 29.981,
            latency_ms: 30.313,
            failed: false,
            aborted: false,
            truncated: false,
            undecodable: false,
            served_by: 'upstream',
            is_retry: false,
            link: 'starts',
            conversation: 2,
            follows: null,
            system: null,
            tools: null,
            messages_added: [{ role: 'user', content: [{ type: 'text', text: 'Pay the oldest.' }] }],
            content: [{ type: 'text', text: 'You said Pay the oldest.' }],
            stop_reason: 'end_turn',
            usage: { input_tokens: 1, output_tokens: 1, cache_read_tokens: null, cache_write_tokens: null },
            cost_usd: null,
            relegation: null,
            error: null,
            problem: '',
            is_cut: false,
          },
        ],
      },
    },
  },
  readCapturedExchange: {
    replies: {
      '200': {
        id: 1,
        run_id: 'invoice-4711',
        seq: null,
        note: '',
        provider: 'anthropic',
        kind: 'turn',
        shape: 'messages',
        method: 'POST',
        path: '/v1/messages',
        query: '',
        status: 200,
        started_at: '2026-11-23T19:08:45.080Z',
        first_byte_ms: 39.515,
        duration_ms: 40.507,
        aborted: false,
        truncated: false,
        undecodable: false,
        served_by: 'upstream',
        model: 'm',
        stop_reason: 'end_turn',
        usage: { input_tokens: 1, output_tokens: 1, cache_read_tokens: null, cache_write_tokens: null },
        request: {
          headers: [
            ['host', '127.0.0.1:58033'],
            ['connection', 'keep-alive'],
            ['content-type', 'application/json'],
            ['x-api-key', '[redacted]'],
            ['x-svc-run', 'invoice-4711'],
            ['accept', '*/*'],
            ['accept-language', '*'],
            ['sec-fetch-mode', 'cors'],
            ['user-agent', 'node'],
            ['accept-encoding', 'gzip, deflate'],
            ['content-length', '94'],
          ],
          bytes: 94,
        },
        response: {
          headers: [
            ['content-type', 'application/json'],
            ['Date', 'Mon, 23 Nov 2026 19:08:45 GMT'],
            ['Connection', 'keep-alive'],
            ['Keep-Alive', 'timeout=5'],
            ['Content-Length', '201'],
          ],
          bytes: 201,
        },
      },
    },
  },
  explainCapturedStep: {
    replies: {
      '200': {
        exchange_id: 1,
        run_id: 'invoice-4711',
        served_by: 'upstream',
        opinion: null,
        problem: 'no student to ask',
        comparison: null,
        relegation: null,
      },
    },
  },
  listRelegatedSteps: { replies: { '200': { steps: [], next_cursor: null } } },
  readCapturedActivity: {
    replies: {
      '200': {
        from: '2026-11-23T18:08:47.614Z',
        to: '2026-11-23T19:08:47.614Z',
        is_whole: true,
        exchanges: 2,
        turns: 2,
        errors: 0,
        student_turns: 0,
        input_tokens: 2,
        output_tokens: 2,
        cost_usd: null,
        unpriced_turns: 2,
        latency_p50_ms: 30.313,
        latency_p95_ms: 40.507,
        first_byte_p50_ms: 29.981,
        first_byte_p95_ms: 39.515,
        series: [
          {
            at: '2026-11-23T18:08:47.614Z',
            exchanges: 0,
            turns: 0,
            errors: 0,
            student_turns: 0,
            input_tokens: 0,
            output_tokens: 0,
            cost_usd: 0,
            unpriced_turns: 0,
            latency_p50_ms: null,
            latency_p95_ms: null,
            first_byte_p50_ms: null,
            first_byte_p95_ms: null,
          },
        ],
        golden: { golden: 0, not_golden: 1, not_judged: 0 },
      },
    },
  },
  readStudentReport: {
    replies: {
      '200': {
        mode: 'off',
        golden_runs_needed: 12,
        problems: [],
        held: false,
        serving: null,
        versions: [],
        agents: [],
        ledger: [],
      },
    },
  },
  readCaptureStats: {
    replies: {
      '200': {
        status: 'ok',
        reasons: [],
        version: '0.2.0',
        uptime_s: 5,
        db: { path: '/var/lib/understudy/capture.mdb', bytes: 65536, sealed: 0, damaged: 0, expired: null },
        writer: {
          alive: true,
          queue_depth: 0,
          queue_bytes: 0,
          max_queue: 10000,
          written: 2,
          dropped: 0,
          errors: 0,
          errors_by_cause: {
            disk_full: 0,
            disk_error: 0,
            damaged: 0,
            unstorable: 0,
            writer_down: 0,
            writer_busy: 0,
            lost_with_writer: 0,
            writer_killed: 0,
          },
          oldest_append_ms: 0,
          packing: { waiting_blocks: 0, waiting_bytes: 0, oldest_s: 0, unindexed: 0, share: 0.05 },
          process: { pid: 23043, restarts: 0, silent_ms: 0, memory_bytes: 100208640 },
        },
        exchanges: {
          attempted: 2,
          captured: 2,
          dropped: 0,
          dropped_by_cause: {
            queue_full: 0,
            bytes_full: 0,
            disk_full: 0,
            disk_error: 0,
            damaged: 0,
            unstorable: 0,
            writer_down: 0,
            lost_with_writer: 0,
            writer_killed: 0,
            stop: 0,
          },
          in_flight: 0,
          turns: 2,
          aborted: 0,
          by_provider: { anthropic: { captured: 2, turns: 2 } },
          withheld_by_cause: { redaction_budget: 0, decompression_budget: 0, undecodable: 0, failed: 0 },
        },
        relegation: {
          enabled: false,
          mode: 'off',
          student: null,
          version: null,
          served: 0,
          fallback: 0,
          errors: 0,
          fallbacks: {},
          tokens_saved: { input: 0, output: 0 },
          money_saved_usd: null,
          audit: { asked: 0, compared: 0, agreed: 0 },
          shadow: { would_serve: 0, compared: 0, agreed: 0 },
          share: 1,
          valid_until: null,
          expired: false,
          suspended: { agents: 0, kinds: 0 },
          ledger: [],
          agents: [],
        },
        connections: {
          open: 4,
          max: 9872,
          max_per_address: 1000,
          refused: { total: 0, per_address: 0, framing: 0 },
          slow_uploads: 0,
          accept_pauses: 0,
        },
      },
    },
  },
  create_checkout_session: {
    replies: { '200': { url: 'https://checkout.stripe.com/c/pay/cs_test_1', session_id: 'cs_test_1' } },
  },
  billing_webhook: { replies: { '200': { received: true, handled: true, duplicate: false } } },
  billing_webhook_thin: { replies: { '200': { received: true, handled: true, duplicate: false } } },
  create_portal_session: { replies: { '200': { url: 'https://billing.stripe.com/p/session/bps_1' } } },
};
