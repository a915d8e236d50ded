/**
 * Every kind of actor there is, with its bounds: one line each. Actor threads.
 */
import { RATE_SLOTS } from '../src/limits.ts';
import type { KindDefinition } from '../src/runtime/host.ts';
import { captureWriter } from './capture-writer/behaviour.ts';
import { distiller } from './distiller/behaviour.ts';
import { liveHub } from './live-hub/behaviour.ts';
import { rateBucket } from './rate-bucket/behaviour.ts';
import { rateSlots } from './rate-bucket/slots.ts';
import { run } from './run/behaviour.ts';
import {
  CAPTURE_WRITER_POLICY,
  DISTILLER_POLICY,
  LIVE_HUB_POLICY,
  RATE_BUCKET_POLICY,
  RATE_SLOTS_POLICY,
  RUN_POLICY,
} from './supervision.ts';

export const CATALOG: readonly KindDefinition[] = [
  { behaviour: captureWriter, policy: CAPTURE_WRITER_POLICY },
  { behaviour: distiller, policy: DISTILLER_POLICY },
  { behaviour: liveHub, policy: LIVE_HUB_POLICY },
  { behaviour: rateBucket, policy: RATE_BUCKET_POLICY },
  { behaviour: rateSlots(RATE_SLOTS), policy: RATE_SLOTS_POLICY },
  { behaviour: run, policy: RUN_POLICY },
];
