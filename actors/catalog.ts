/**
 * Every kind of actor there is, with its bounds: one line each. Actor threads.
 */
import { RATE_SLOTS } from '../src/limits.ts';
import type { KindDefinition } from '../src/runtime/host.ts';
import { captureWriter } from './capture-writer/behaviour.ts';
import { distiller } from './distiller/behaviour.ts';
import { liveHub } from './live-hub/behaviour.ts';
import { patternIndex } from './pattern-index/behaviour.ts';
import { rateBucket } from './rate-bucket/behaviour.ts';
import { rateSlots } from './rate-bucket/slots.ts';
import { run } from './run/behaviour.ts';
import {
  CAPTURE_WRITER_POLICY,
  DISTILLER_POLICY,
  LIVE_HUB_POLICY,
  PATTERN_INDEX_POLICY,
  RATE_BUCKET_POLICY,
  RATE_SLOTS_POLICY,
  RUN_POLICY,
  USAGE_METER_POLICY,
} from './supervision.ts';
import { usageMeter } from './usage-meter/behaviour.ts';

export const CATALOG: readonly KindDefinition[] = [
  { behaviour: captureWriter, policy: CAPTURE_WRITER_POLICY },
  { behaviour: distiller, policy: DISTILLER_POLICY },
  { behaviour: liveHub, policy: LIVE_HUB_POLICY },
  { behaviour: patternIndex, policy: PATTERN_INDEX_POLICY },
  { behaviour: rateBucket, policy: RATE_BUCKET_POLICY },
  { behaviour: rateSlots(RATE_SLOTS), policy: RATE_SLOTS_POLICY },
  { behaviour: run, policy: RUN_POLICY },
  { behaviour: usageMeter, policy: USAGE_METER_POLICY },
];
