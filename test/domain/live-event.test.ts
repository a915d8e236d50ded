/** Events of the live stream: bounded, and on one line. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  boundLiveEvent,
  encodeLiveData,
  LIVE_TEXT_CHARACTERS,
  type RunStartEvent,
} from '../../src/domain/live-event.ts';

const start = (more: Partial<RunStartEvent> = {}): RunStartEvent => ({
  event: 'run_start',
  org_id: 'org_a',
  project_id: 'proj_a',
  run_id: 'run-1',
  at: '2026-01-01T00:00:00.000Z',
  agent_name: 'lead',
  model: 'm',
  framework: 'custom',
  task_profile: 'coding',
  ...more,
});

describe('a live event', () => {
  it('is unchanged if its texts are short', () => {
    const event = start();
    expect(boundLiveEvent(event)).toBe(event);
  });

  it('is cut at the bound, never inside a character, without a change of the original', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 400 }), (agent_name) => {
        const event = start({ agent_name });
        const bounded = boundLiveEvent(event);
        expect(bounded.agent_name.length).toBeLessThanOrEqual(LIVE_TEXT_CHARACTERS);
        expect(agent_name.startsWith(bounded.agent_name)).toBe(true);
        expect(bounded.agent_name.isWellFormed()).toBe(agent_name.isWellFormed());
        expect(event.agent_name).toBe(agent_name);
      }),
    );
    const bounded = boundLiveEvent(start({ model: `${'x'.repeat(LIVE_TEXT_CHARACTERS - 1)}😀😀` }));
    expect(bounded.model).toBe('x'.repeat(LIVE_TEXT_CHARACTERS - 1));
  });

  it('is one line of JSON for any texts, without its name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (model) => {
        const data = encodeLiveData(start({ model }));
        expect(data).not.toMatch(/[\n\r]/);
        const { event: _, ...facts } = start({ model });
        expect(JSON.parse(data)).toEqual(facts);
      }),
    );
  });
});
