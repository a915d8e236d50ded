/** When the client sends requests to the service, and when it does not. */
import { beforeEach, describe, expect, it } from 'vitest';
import { Circuit } from '../../src/client/circuit.ts';

let nowMs: number;
let circuit: Circuit;

beforeEach(() => {
  nowMs = 1_000;
  circuit = new Circuit(() => nowMs);
});

/** Lets the one permitted request fail. @returns how many milliseconds the circuit then stays open */
function fail(): number {
  nowMs += circuit.waitMs;
  expect(circuit.admit()).toBe(true);
  circuit.noteSilence();
  return circuit.waitMs;
}

describe('a circuit', () => {
  it('opens when the service does not answer, and waits longer each time', () => {
    expect(Array.from({ length: 7 }, fail)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  });

  it('lets one request try, and closes if it succeeds', () => {
    fail();
    fail();
    expect(circuit.admit()).toBe(false);
    nowMs += circuit.waitMs;
    expect([circuit.admit(), circuit.admit(), circuit.state]).toEqual([true, false, 'half-open']);
    circuit.noteAnswer();
    expect([circuit.admit(), circuit.admit(), circuit.state]).toEqual([true, true, 'closed']);
    expect(fail()).toBe(1_000);
  });

  it('opens only after consecutive errors', () => {
    for (let round = 0; round < 3; round++) {
      for (let at = 0; at < 4; at++) circuit.noteServerError();
      expect(circuit.state).toBe('closed');
      circuit.noteAnswer();
    }
    for (let at = 0; at < 5; at++) circuit.noteServerError();
    expect(circuit.state).toBe('open');
  });

  it('is opened once by all requests in progress', () => {
    for (let at = 0; at < 9; at++) circuit.noteSilence();
    expect(circuit.waitMs).toBe(1_000);
  });

  it('tries at once after `hurry`, and lets the next request try if one was abandoned', () => {
    fail();
    circuit.hurry();
    expect(circuit.admit()).toBe(true);
    circuit.noteNothing();
    expect([circuit.state, circuit.admit()]).toEqual(['open', true]);
  });
});
