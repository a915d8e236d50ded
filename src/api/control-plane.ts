/** The control plane's part of the API's table: every dashboard route with its handler, and the webhooks. Server threads. */
import { Revocations } from '../auth/revocations.ts';
import type { PaymentProcessor, WebhookVerifier } from '../billing/processor.ts';
import { ACCOUNT } from '../contract/account.ts';
import { API_KEYS } from '../contract/api-keys.ts';
import { BILLING } from '../contract/billing.ts';
import { FEEDBACK } from '../contract/feedback.ts';
import { ORGANIZATIONS } from '../contract/organizations.ts';
import { PROJECTS } from '../contract/projects.ts';
import { RETENTION_ROUTES } from '../contract/retention.ts';
import type { ApiRoute } from '../contract/route.ts';
import { SEARCHES } from '../contract/searches.ts';
import { USAGE_ROUTES } from '../contract/usage.ts';
import { bindUser } from '../contract/user-handler.ts';
import type { PlanCaps } from '../domain/plans.ts';
import type { Clock } from '../std/clock.ts';
import { SharedLocks } from '../std/shared-locks.ts';
import type { Stores } from '../storage/ports/stores.ts';
import { accountHandlers } from './account.ts';
import { apiKeyHandlers } from './api-keys.ts';
import { billingHandlers, webhookRoutes } from './billing.ts';
import type { DeletedContent } from './deleted-content.ts';
import { feedbackHandlers } from './feedback.ts';
import { type KeptDays, retentionHandlers } from './kept-days.ts';
import { organizationHandlers } from './organizations.ts';
import type { Checks } from './pipeline.ts';
import { projectHandlers } from './projects.ts';
import { searchHandlers } from './searches.ts';
import { usageHandlers } from './usage.ts';
import { UserEpochs } from './user-epochs.ts';
import { guardUser } from './user-guard.ts';

/** The parts that the control plane needs besides the checks and the stores. */
export interface ControlPlane {
  plan_caps: PlanCaps;
  /** null: STRIPE_SECRET_KEY is not set. */
  processor: PaymentProcessor | null;
  webhooks: WebhookVerifier;
  /** Shared by all server threads (src/auth/revocations.ts). */
  revocations: SharedArrayBuffer;
  /** Shared by all server threads (user-epochs.ts). */
  user_epochs: SharedArrayBuffer;
  /** Shared by all server threads (src/std/shared-locks.ts). */
  event_locks: SharedArrayBuffer;
  /**
   * Waits until this thread can read the counts of other server threads; absent without other server threads.
   */
  settle?: () => Promise<void>;
  /** After how many days each kind of data is deleted (RETENTION_DAYS…). */
  retention_days: KeptDays;
  clock?: Clock;
}

export function controlPlaneRoutes(
  control: ControlPlane,
  stores: Stores,
  checks: Checks,
  content: Pick<DeletedContent, 'remove'>,
): ApiRoute[] {
  const { accounts } = stores;
  const { plan_caps, settle, clock } = control;
  const epochs = new UserEpochs(control.user_epochs);
  const revocations = new Revocations(control.revocations);
  const timed = clock === undefined ? {} : { clock };
  const billing = {
    stores,
    plan_caps,
    processor: control.processor,
    webhooks: control.webhooks,
    event_locks: new SharedLocks(control.event_locks),
    ...timed,
  };
  const bound = [
    ...bindUser(ACCOUNT, accountHandlers({ accounts, epochs, revocations, content, plan_caps, ...timed })),
    ...bindUser(ORGANIZATIONS, organizationHandlers({ accounts, epochs, revocations, content })),
    ...bindUser(PROJECTS, projectHandlers({ accounts, revocations, content })),
    ...bindUser(API_KEYS, apiKeyHandlers({ accounts, revocations })),
    ...bindUser(USAGE_ROUTES, usageHandlers({ stores, ...(settle === undefined ? {} : { settle }) })),
    ...bindUser(RETENTION_ROUTES, retentionHandlers(control.retention_days)),
    ...bindUser(BILLING, billingHandlers(billing)),
    ...bindUser(SEARCHES, searchHandlers({ accounts })),
    ...bindUser(FEEDBACK, feedbackHandlers({ accounts })),
  ];
  return [
    ...bound.map((entry) => guardUser(entry, { checks, accounts, epochs, ...timed })),
    ...webhookRoutes(billing),
  ];
}
