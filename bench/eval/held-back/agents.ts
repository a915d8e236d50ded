/** The agents of the held-back evaluation: judges, and those that were studied. Pure; bench process. */

import { claimsHandler } from './agents/claims-handler.ts';
import { costWatcher } from './agents/cost-watcher.ts';
import { labAssistant } from './agents/lab-assistant.ts';
import { mailSorter } from './agents/mail-sorter.ts';
import { onboardingClerk } from './agents/onboarding-clerk.ts';
import { stockPurchaser } from './agents/stock-purchaser.ts';
import type { HeldBackAgent } from './held-back-agent.ts';
import { calendarKeeper } from './studied/calendar-keeper.ts';
import { catalogueEditor } from './studied/catalogue-editor.ts';
import { clinicScheduler } from './studied/clinic-scheduler.ts';
import { codeFixer } from './studied/code-fixer.ts';
import { codeReviewer } from './studied/code-reviewer.ts';
import { dataCleaner } from './studied/data-cleaner.ts';
import { fleetDispatcher } from './studied/fleet-dispatcher.ts';
import { invoiceChecker } from './studied/invoice-checker.ts';
import { loanServicer } from './studied/loan-servicer.ts';
import { logTriage } from './studied/log-triage.ts';
import { pipelineMender } from './studied/pipeline-mender.ts';
import { propertyManager } from './studied/property-manager.ts';
import { shellOperator } from './studied/shell-operator.ts';
import { siteReader } from './studied/site-reader.ts';
import { sqlAnalyst } from './studied/sql-analyst.ts';
import { supportDesk } from './studied/support-desk.ts';
import { textLocaliser } from './studied/text-localiser.ts';
import { trainBooker } from './studied/train-booker.ts';

/**
 * All agents. An agent's position decides its seeds: so a new agent is added at the end, and a studied agent keeps its
 * position.
 */
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
  claimsHandler,
  costWatcher,
  mailSorter,
  stockPurchaser,
  pipelineMender,
  onboardingClerk,
  textLocaliser,
  codeReviewer,
  labAssistant,
  propertyManager,
  fleetDispatcher,
  loanServicer,
  clinicScheduler,
  catalogueEditor,
];

/**
 * Agents whose steps were studied to improve the student, or were written for that: they cannot judge it, and run only
 * if they are named.
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
  pipelineMender,
  textLocaliser,
  codeReviewer,
  propertyManager,
  fleetDispatcher,
  loanServicer,
  clinicScheduler,
  catalogueEditor,
];

/** Agents that judge the student. No rule of the student is tuned on them. */
export const JUDGES: readonly HeldBackAgent[] = HELD_BACK_AGENTS.filter(
  (agent) => !STUDIED_AGENTS.includes(agent),
);
