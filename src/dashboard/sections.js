/** The dashboard's sections, in the order of the menu: name in the address → heading and what fills the page. Browser. */
import { fillAudit } from './audit.js';
import { fillBilling } from './billing.js';
import { fillKeys } from './keys.js';
import { fillLive } from './live.js';
import { fillMembers } from './members.js';
import { fillOverview } from './overview.js';
import { fillProjects } from './projects.js';
import { fillFeedback, fillSettings } from './settings.js';

/**
 * `fill(page, context)` gets an empty element and `{org, role, profile, server, act, load, notify, fail, signal}`; what
 * it returns is waited for before the page is shown. The signal ends when another section is.
 */
export const SECTIONS = {
  overview: { group: 'Watch', heading: 'Overview', fill: fillOverview },
  live: { group: 'Watch', heading: 'Live', fill: fillLive },
  keys: { group: 'Connect', heading: 'API keys', fill: fillKeys },
  projects: { group: 'Connect', heading: 'Projects', fill: fillProjects },
  members: { group: 'Organization', heading: 'Members', fill: fillMembers },
  billing: { group: 'Organization', heading: 'Billing', fill: fillBilling },
  audit: { group: 'Organization', heading: 'Audit log', fill: fillAudit },
  settings: { group: 'Organization', heading: 'Settings', fill: fillSettings },
  feedback: { group: 'Help', heading: 'Feedback', fill: fillFeedback },
};
