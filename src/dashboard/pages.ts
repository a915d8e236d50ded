/** The dashboard's pages in the order of the menu. README.md says how to add a page. Browser. */
import type { ComponentType } from 'preact';
import { AlertsPage } from './pages/alerts.tsx';
import { AuditPage } from './pages/audit.tsx';
import { BillingPage } from './pages/billing.tsx';
import { ComparePage } from './pages/compare.tsx';
import { CostsPage } from './pages/costs.tsx';
import { ExperimentsPage } from './pages/experiments.tsx';
import { FeedbackPage } from './pages/feedback.tsx';
import { FindingsPage } from './pages/findings.tsx';
import { HomePage } from './pages/home.tsx';
import { KeysPage } from './pages/keys.tsx';
import { MembersPage } from './pages/members.tsx';
import { NowherePage } from './pages/nowhere.tsx';
import { PatternsPage } from './pages/patterns.tsx';
import { ProjectsPage } from './pages/projects.tsx';
import { RunsPage } from './pages/runs.tsx';
import { SettingsPage } from './pages/settings.tsx';
import { StudentPage } from './pages/student.tsx';
import { UsagePage } from './pages/usage.tsx';
import type { IconName } from './ui/icons.tsx';

export const GROUPS = ['Watch', 'Learn', 'Connect', 'Organization', 'Help'] as const;

export interface Page {
  /** Name in the address: `#/name`. */
  name: string;
  title: string;
  group: (typeof GROUPS)[number];
  icon: IconName;
  /** Who sees the page: operators, admins of an organization, its members (`organization`), or everybody. */
  needs: 'operator' | 'admin' | 'organization' | 'nothing';
  Content: ComponentType;
  /** Other pages link to it, but the menu does not. */
  is_hidden?: true;
}

export const PAGES: readonly Page[] = [
  { name: '', title: 'Home', group: 'Watch', icon: 'home', needs: 'organization', Content: HomePage },
  {
    name: 'runs',
    title: 'Runs',
    group: 'Watch',
    icon: 'runs',
    needs: 'organization',
    Content: RunsPage,
  },
  {
    name: 'compare',
    title: 'Compare',
    group: 'Watch',
    icon: 'runs',
    needs: 'operator',
    Content: ComparePage,
    is_hidden: true,
  },
  {
    name: 'costs',
    title: 'Costs',
    group: 'Watch',
    icon: 'costs',
    needs: 'operator',
    Content: CostsPage,
  },
  {
    name: 'alerts',
    title: 'Alerts',
    group: 'Watch',
    icon: 'alerts',
    needs: 'operator',
    Content: AlertsPage,
  },
  {
    name: 'patterns',
    title: 'Patterns',
    group: 'Learn',
    icon: 'patterns',
    needs: 'organization',
    Content: PatternsPage,
  },
  {
    name: 'findings',
    title: 'Findings',
    group: 'Learn',
    icon: 'findings',
    needs: 'organization',
    Content: FindingsPage,
  },
  {
    name: 'experiments',
    title: 'Experiments',
    group: 'Learn',
    icon: 'experiments',
    needs: 'organization',
    Content: ExperimentsPage,
  },
  {
    name: 'student',
    title: 'Student',
    group: 'Watch',
    icon: 'student',
    needs: 'operator',
    Content: StudentPage,
  },
  {
    name: 'keys',
    title: 'API keys',
    group: 'Connect',
    icon: 'keys',
    needs: 'organization',
    Content: KeysPage,
  },
  {
    name: 'projects',
    title: 'Projects',
    group: 'Connect',
    icon: 'projects',
    needs: 'organization',
    Content: ProjectsPage,
  },
  {
    name: 'usage',
    title: 'Usage',
    group: 'Organization',
    icon: 'usage',
    needs: 'organization',
    Content: UsagePage,
  },
  {
    name: 'members',
    title: 'Members',
    group: 'Organization',
    icon: 'members',
    needs: 'organization',
    Content: MembersPage,
  },
  {
    name: 'billing',
    title: 'Billing',
    group: 'Organization',
    icon: 'billing',
    needs: 'organization',
    Content: BillingPage,
  },
  {
    name: 'audit',
    title: 'Audit log',
    group: 'Organization',
    icon: 'audit',
    needs: 'admin',
    Content: AuditPage,
  },
  {
    name: 'settings',
    title: 'Settings',
    group: 'Organization',
    icon: 'settings',
    needs: 'nothing',
    Content: SettingsPage,
  },
  {
    name: 'feedback',
    title: 'Feedback',
    group: 'Help',
    icon: 'feedback',
    needs: 'nothing',
    Content: FeedbackPage,
  },
];

/** Shown for an address that names no page; not in the menu. */
const NOWHERE: Page = {
  name: 'nowhere',
  title: 'Not found',
  group: 'Help',
  icon: 'docs',
  needs: 'nothing',
  Content: NowherePage,
};

/** The page with that name, or a page that says that the name is unknown. */
export function findPage(name: string): Page {
  return PAGES.find((page) => page.name === name) ?? NOWHERE;
}
