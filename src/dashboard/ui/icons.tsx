/** Icons of the menu, drawn with lines in the colour of their text. Browser. */

const PATHS = {
  home: 'M3 9.5 10 4l7 5.5V16a1 1 0 0 1-1 1h-4v-5H8v5H4a1 1 0 0 1-1-1Z',
  runs: 'M3 14l4-5 3 3 4-7 3 4',
  student: 'M2 8l8-4 8 4-8 4Zm3 2v4c3 2 7 2 10 0v-4',
  costs: 'M10 3v14M13 6c-1-1-5-1.500-6 .5S8 9.500 10 10s4 1.500 3 3.500-5 1.500-6.500.5',
  alerts:
    'M10 3a4.500 4.500 0 0 1 4.500 4.500V11l1.500 3H4l1.500-3V7.500A4.500 4.500 0 0 1 10 3ZM8.500 16.500h3',
  patterns: 'M4 4h5v5H4Zm7 7h5v5h-5Zm0-7h5v5h-5ZM4 11h5v5H4Z',
  findings: 'M9 4a5 5 0 1 1 0 10A5 5 0 0 1 9 4Zm4 9 4 4',
  experiments: 'M8 3v5l-4 7a1 1 0 0 0 1 2h10a1 1 0 0 0 1-2l-4-7V3M7 3h6',
  keys: 'M12 3a4 4 0 1 1-3 7l-5 5v2h3v-2h2v-2l2-2a4 4 0 0 1 1-8Z',
  projects: 'M3 5h5l2 2h7v9H3Z',
  usage: 'M4 16V9m4 7V4m4 12v-5m4 5V7',
  members:
    'M7 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm-5 8c0-3 2-5 5-5s5 2 5 5M13 9a2.5 2.5 0 1 0 0-5m1 8c2.500 0 4 2 4 5',
  billing: 'M3 5h14v10H3Zm0 4h14',
  audit: 'M5 3h10v14H5Zm3 4h4m-4 3h4m-4 3h2',
  settings:
    'M10 7a3 3 0 1 0 0 6 3 3 0 0 0 0-6Zm0-4v2m0 10v2M3 10h2m10 0h2M5 5l1.500 1.500m7 7L15 15m0-10-1.500 1.500m-7 7L5 15',
  feedback: 'M10 16s-6-4-6-8a3 3 0 0 1 6-1 3 3 0 0 1 6 1c0 4-6 8-6 8Z',
  api: 'M7 6l-4 4 4 4m6-8 4 4-4 4',
  docs: 'M4 4h5l1 1 1-1h5v12h-5l-1 1-1-1H4Zm6 1v12',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" width={18} height={18} aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
