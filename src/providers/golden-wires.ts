/** Which wires can have golden runs, and which stop words say that a turn ended by itself. Pure; any thread. */

import type { GoldenWires } from '../domain/golden.ts';
import { normalizeStop } from './wire.ts';
import { WIRES } from './wires.ts';

export const GOLDEN_WIRES: GoldenWires = {
  canBeGolden: (shape) => shape !== null && WIRES[shape].can_be_golden,
  endsItself: (shape, stop_reason) => {
    const stop = normalizeStop(WIRES[shape], stop_reason, []);
    return stop === 'end_turn' || stop === 'stop_sequence';
  },
};
