/** Creates runs, patterns, findings and an experiment over the API for the dashboard's tests. */
import type { SeededService } from './seeded-service.ts';

/** Markup that would run if a page inserted text as HTML. */
export const PAYLOAD = '<img src=x onerror="alert(1)"><script>alert(2)</script>';

/** An outcome with a long part without a blank. */
export const LONG_OUTCOME = `failure: the tests still fail after ${'everything_that_was_tried_'.repeat(6)}`;

export const LOOPING = 'looping';
export const CODEBASE = 'acme/shop';
export const EXPERIMENT = 'patterns-on';

const tenant = ({ org_id }: SeededService) => `?org_id=${org_id}`;

export async function startRun(service: SeededService, run_id: string, more: object = {}): Promise<void> {
  const body = {
    run_id,
    task: `Task of ${run_id}`,
    agent_name: 'mender',
    model: 'claude-demo-large',
    ...more,
  };
  await service.call('POST', `/v1/monitor/runs${tenant(service)}`, body);
}

export async function logStep(
  service: SeededService,
  run_id: string,
  step_index: number,
  more: object = {},
): Promise<void> {
  await service.call('POST', `/v1/monitor/runs/${run_id}/steps${tenant(service)}`, {
    step_index,
    action: 'edit',
    action_input: `src/file-${step_index}.ts`,
    observation: `edited file ${step_index}`,
    ...more,
  });
}

export async function finishRun(service: SeededService, run_id: string, outcome: string): Promise<void> {
  await service.call('POST', `/v1/monitor/runs/${run_id}/finish${tenant(service)}`, { outcome });
}

/** A run in which the same call fails again and again, so that a monitor fires and says what to do. */
export async function makeLoop(service: SeededService, run_id: string = LOOPING, steps = 8): Promise<void> {
  await startRun(service, run_id, {
    task: 'Fix the date parser: its tests fail by one day in some time zones',
  });
  await logStep(service, run_id, 0, {
    action: 'read',
    action_input: 'parser.ts',
    thought: 'I read the parser first.',
  });
  for (let at = 1; at < steps; at += 1)
    await logStep(service, run_id, at, {
      action: 'run_tests',
      action_input: 'npm test',
      observation: 'Error: expected 2024-01-01 but got 2023-12-31\n  at parser.test.ts:14',
      is_error: true,
      tokens: 900,
    });
}

/** Creates some objects for each page. */
export async function seedRecords(service: SeededService): Promise<void> {
  const { org_id } = service;
  await makeLoop(service);
  await finishRun(service, LOOPING, LONG_OUTCOME);
  await startRun(service, 'payload', {
    task: PAYLOAD,
    agent_name: PAYLOAD,
    model: PAYLOAD,
    framework: PAYLOAD,
  });
  await logStep(service, 'payload', 0, {
    action: PAYLOAD,
    action_input: PAYLOAD,
    thought: PAYLOAD,
    observation: PAYLOAD,
  });
  await finishRun(service, 'payload', PAYLOAD);
  await service.call('POST', `/v1/patterns?org_id=${org_id}`, {
    tier: 'e2',
    patterns: [
      {
        situation: `Tests fail by one day ${PAYLOAD}`,
        dead_ends: PAYLOAD,
        unlock: `Parse as UTC ${PAYLOAD}`,
      },
    ],
  });
  for (const content of ['The parser drops trailing commas', PAYLOAD])
    await service.call('POST', `/v1/findings/${encodeURIComponent(CODEBASE)}?org_id=${org_id}`, {
      content,
      file_path: 'src/parser.ts',
      metadata: { by: PAYLOAD },
    });
  for (let at = 0; at < 40; at += 1) {
    const run_id = `trial-${at}`;
    const arm = at % 2 === 0 ? 'on' : 'off';
    await startRun(service, run_id, { experiment_id: EXPERIMENT, arm, assignment_unit: `unit-${at}` });
    await logStep(service, run_id, 0);
    await finishRun(service, run_id, at % 4 === 1 || at % 10 === 0 ? 'failure' : 'success');
  }
}
