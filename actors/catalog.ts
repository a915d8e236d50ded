/**
 * Every kind of actor that lives on an actor thread, with its bounds: one line each. Those of `SERVER_KINDS` live on the
 * server threads (src/threads/server-actors.ts). Actor threads.
 */
import { RATE_SLOTS } from '../src/limits.ts';
import type { KindDefinition } from '../src/runtime/host.ts';
import { captureWriter } from './capture-writer/behaviour.ts';
import { distiller } from './distiller/behaviour.ts';
import { patternIndex } from './pattern-index/behaviour.ts';
import { rateBucket } from './rate-bucket/behaviour.ts';
import { rateSlots } from './rate-bucket/slots.ts';
import {
  CAPTURE_WRITER_POLICY,
  DISTILLER_POLICY,
  PATTERN_INDEX_POLICY,
  RATE_BUCKET_POLICY,
  RATE_SLOTS_POLICY,
} from './supervision.ts';

export const CATALOG: readonly KindDefinition[] = [
  { behaviour: captureWriter, policy: CAPTURE_WRITER_POLICY },
  { behaviour: distiller, policy: DISTILLER_POLICY },
  { behaviour: patternIndex, policy: PATTERN_INDEX_POLICY },
  { behaviour: rateBucket, policy: RATE_BUCKET_POLICY },
  { behaviour: rateSlots(RATE_SLOTS), policy: RATE_SLOTS_POLICY },
];
