/** The agents of the held-back evaluation. No rule of the student is tuned on those that are not studied. Pure; bench process. */

import { calendarKeeper } from './agents/calendar-keeper.ts';
import { codeFixer } from './agents/code-fixer.ts';
import { dataCleaner } from './agents/data-cleaner.ts';
import { invoiceChecker } from './agents/invoice-checker.ts';
import { logTriage } from './agents/log-triage.ts';
import { shellOperator } from './agents/shell-operator.ts';
import { siteReader } from './agents/site-reader.ts';
import { sqlAnalyst } from './agents/sql-analyst.ts';
import { supportDesk } from './agents/support-desk.ts';
import { trainBooker } from './agents/train-booker.ts';
import type { HeldBackAgent } from './held-back-agent.ts';

export const HELD_BACK_AGENTS: readonly HeldBackAgent[] = [
  supportDesk,
  sqlAnalyst,
  codeFixer,
  calendarKeeper,
  invoiceChecker,
  logTriage,
  siteReader,
  trainBooker,
  dataCleaner,
  shellOperator,
];

/**
 * Agents whose steps were studied to improve the student: they can no longer judge it, and run only if they are named.
 * They keep their places in the list above, so that the other agents keep their seeds.
 */
export const STUDIED_AGENTS: readonly HeldBackAgent[] = [
  supportDesk,
  sqlAnalyst,
  codeFixer,
  calendarKeeper,
  invoiceChecker,
  logTriage,
  siteReader,
  trainBooker,
  dataCleaner,
  shellOperator,
];
