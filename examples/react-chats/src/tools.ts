/** The tools whose answers are cards. */
export const TOOLS = new Set(["schedule_task", "list_tasks", "get_task", "reschedule_task", "cancel_task", "act_on_task"]);
