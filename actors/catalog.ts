/**
 * Every kind of actor there is, with its bounds: one line each. Actor threads.
 */
import type { KindDefinition } from '../src/runtime/host.ts';
import { captureWriter } from './capture-writer/behaviour.ts';
import { CAPTURE_WRITER_POLICY } from './supervision.ts';

export const CATALOG: readonly KindDefinition[] = [
  { behaviour: captureWriter, policy: CAPTURE_WRITER_POLICY },
];
