/**
 * The kinds of actors on actor threads, with their bounds, one line each. The findings index is not among them, because
 * it needs the thread's vector index (src/threads/actor-thread-entry.ts). The kinds in `SERVER_KINDS` run on the server
 * threads (src/threads/server-actors.ts). Actor threads.
 */

import type { KindDefinition } from '../src/runtime/host.ts';
import { captureWriter } from './capture-writer/behaviour.ts';
import { patternIndex } from './pattern-index/behaviour.ts';
import { patternMaker } from './pattern-maker/behaviour.ts';
import { rateBucket } from './rate-bucket/behaviour.ts';
import { rateSlots } from './rate-bucket/slots.ts';
import { RATE_SLOTS } from './rate-bucket/table.ts';
import {
  CAPTURE_WRITER_POLICY,
  PATTERN_INDEX_POLICY,
  PATTERN_MAKER_POLICY,
  RATE_BUCKET_POLICY,
  RATE_SLOTS_POLICY,
} from './supervision.ts';

export const CATALOG: readonly KindDefinition[] = [
  { behaviour: captureWriter, policy: CAPTURE_WRITER_POLICY },
  { behaviour: patternMaker, policy: PATTERN_MAKER_POLICY },
  { behaviour: patternIndex, policy: PATTERN_INDEX_POLICY },
  { behaviour: rateBucket, policy: RATE_BUCKET_POLICY },
  { behaviour: rateSlots(RATE_SLOTS), policy: RATE_SLOTS_POLICY },
];
