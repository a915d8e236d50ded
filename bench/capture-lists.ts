/** The requests with which the dashboard reads its lists of captured runs. Bench processes. */

export const CAPTURE_LISTS = [
  '/capture/runs?limit=100',
  '/capture/runs?limit=50',
  '/capture/runs?limit=100&golden=true',
  '/capture/runs?limit=100&golden=false',
  '/capture/runs?limit=100&own=false',
  '/capture/runs?limit=100&q=no+run+says+that',
  '/capture/runs?limit=100&served_by=student',
  '/capture/runs?limit=100&q=sort:cost',
  '/capture/runs?limit=100&q=status:failed,error',
  '/capture/run-values?field=model',
  '/capture/run-values?field=tool&q=has:error',
  '/capture/figures?by=model&days=90',
  '/capture/activity?hours=24',
  '/capture/activity?hours=720',
  '/capture/steps?limit=100',
  '/capture/student',
];
