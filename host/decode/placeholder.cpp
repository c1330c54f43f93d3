namespace vindex {}
